// The text format of test/wire/*.txt: reading it, and comparing what a server sent with what a
// case expects. test/wire/README.md describes the format for those who write cases.
import { STATUS_CODES } from 'node:http'

const DATE = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/
const DATE_LENGTH = 29

// RFC 9110 renamed this status after Node's table was made.
const REASONS = { ...STATUS_CODES, 413: 'Content Too Large' }

const TYPES = {
  text: 'text/plain; charset=utf-8',
  json: 'application/json',
  html: 'text/html; charset=utf-8',
  octets: 'application/octet-stream'
}

const SIMPLE = { r: '\r', n: '\n', t: '\t', 0: '\0', '\\': '\\', '{': '{', '}': '}', '"': '"' }

function unescape (text, where) {
  return text.replace(/\\(x[0-9a-fA-F]{2}|[^])/g, (whole, code) => {
    if (code[0] === 'x' && code.length === 3) return String.fromCharCode(parseInt(code.slice(1), 16))
    if (code in SIMPLE) return SIMPLE[code]
    throw new Error(`${where}: unknown escape ${whole}`)
  })
}

/** One line's text as tokens: { text } literal, { date }, { any } up to the end of a line. */
function tokens (source, where) {
  const out = []
  for (const [part] of source.matchAll(/(?:[^{\\]|\\[^])+|\{[^}]*\}|[^]/g)) {
    const repeat = /^\{(\d+)\*(.*)\}$/s.exec(part)
    if (part === '{date}') out.push({ date: true })
    else if (part === '{any}') out.push({ any: true })
    else if (repeat) out.push({ text: unescape(repeat[2], where).repeat(Number(repeat[1])) })
    else if (part[0] === '{') throw new Error(`${where}: ${part} is no placeholder; a brace is written \\{`)
    else out.push({ text: unescape(part, where) })
  }
  return out
}

/** A line stands for its octets and CRLF; a backslash at its very end keeps the CRLF away. */
function lineTokens (line, where) {
  const backslashes = /\\*$/.exec(line)[0].length
  return backslashes % 2 ? tokens(line.slice(0, -1), where) : [...tokens(line, where), { text: '\r\n' }]
}

/** `= STATUS [text|json|html|octets] [close|keep-alive] ["body"]`: a whole response. */
function shorthand (line, where) {
  const found = /^(\d{3})((?: [a-z-]+)*)(?: "(.*)")?$/s.exec(line)
  if (!found) throw new Error(`${where}: not a response: ${line}`)
  const [, status, words, quoted] = found
  const reason = REASONS[status]
  const body = quoted === undefined ? [{ text: reason }] : tokens(quoted, where)
  const length = body.reduce((sum, token) => sum + token.text.length, 0)
  let [type, connection] = ['text', '']
  for (const word of words.split(' ').filter(Boolean)) {
    if (TYPES[word]) type = word
    else if (word === 'close' || word === 'keep-alive') connection = `Connection: ${word}\r\n`
    else throw new Error(`${where}: unknown word ${word}`)
  }
  return [
    { text: `HTTP/1.1 ${status} ${reason}\r\nContent-Type: ${TYPES[type]}\r\nContent-Length: ${length}\r\nDate: ` },
    { date: true }, { text: `\r\n${connection}\r\n` }, ...body
  ]
}

const ENDS = ['open', 'closed', 'waiting']

function addSend (steps, line, where) {
  const bytes = Buffer.from(lineTokens(line, where).map((token) => token.text).join(''), 'latin1')
  const last = steps.at(-1)
  if (last && last.send) last.send = Buffer.concat([last.send, bytes])
  else steps.push({ send: bytes })
}

function addExpect (steps, list) {
  const last = steps.at(-1)
  if (last && last.expect) last.expect.push(...list)
  else steps.push({ expect: [...list] })
}

/** One line inside a case. */
function addLine (test, line, where) {
  const { steps } = test
  const rest = line.slice(2)
  if (test.end) throw new Error(`${where}: nothing may follow ${test.end}`)
  if (line === '>' || line.startsWith('> ')) addSend(steps, rest, where)
  else if (line === '<' || line.startsWith('< ')) addExpect(steps, lineTokens(rest, where))
  else if (line.startsWith('<? ')) addExpect(steps, [{ optional: unescape(line.slice(3), where) + '\r\n' }])
  else if (line.startsWith('= ')) addExpect(steps, shorthand(rest, where))
  else if (line === 'pause') steps.push({ pause: true })
  else if (line === 'fin') steps.push({ fin: true })
  else if (line === 'whole') test.whole = true
  else if (ENDS.includes(line)) test.end = line
  else throw new Error(`${where}: not understood: ${line}`)
}

/** Reads one file: { server: options, whole, tests: [{ name, where, steps, end, whole }] }. */
export function parse (text, file) {
  const result = { file, server: {}, whole: false, tests: [] }
  let test = null
  text.split('\n').forEach((line, index) => {
    const where = `${file}:${index + 1}`
    if (line === '' || line.startsWith('#')) return
    if (line.startsWith('=== ')) {
      test = { name: line.slice(4), where, steps: [], end: null, whole: result.whole }
      result.tests.push(test)
    } else if (test) addLine(test, line, where)
    else if (line.startsWith('@server ')) result.server = JSON.parse(line.slice(8))
    else if (line === '@whole') result.whole = true
    else throw new Error(`${where}: not understood before the first case: ${line}`)
  })
  for (const { end, where, name } of result.tests) {
    if (!end) throw new Error(`${where}: "${name}" does not end with ${ENDS.join(', ')}`)
  }
  return result
}

/** Where `text`, from `at` on, stands to one token: the new offset, -1 too short yet, -2 differs. */
function step (token, text, at) {
  if (token.text !== undefined) {
    const have = text.slice(at, at + token.text.length)
    if (have === token.text) return at + token.text.length
    return token.text.startsWith(have) ? -1 : -2
  }
  if (token.optional !== undefined) {
    const have = text.slice(at, at + token.optional.length)
    if (have === token.optional) return at + have.length
    return have !== '' && token.optional.startsWith(have) ? -1 : at
  }
  if (token.date) {
    if (text.length - at < DATE_LENGTH) return -1
    return DATE.test(text.slice(at, at + DATE_LENGTH)) ? at + DATE_LENGTH : -2
  }
  const end = text.slice(at).search(/[\r\n]/)
  return end < 0 ? -1 : at + end
}

/** Compares octets received so far: { state: 'full' | 'part' | 'differs', at }. */
export function compare (expected, text) {
  let at = 0
  for (const token of expected) {
    const next = step(token, text, at)
    if (next === -1) return { state: 'part', at }
    if (next === -2) return { state: 'differs', at }
    at = next
  }
  return { state: at === text.length ? 'full' : 'differs', at }
}

/** Expected octets for people to read. */
export function show (expected) {
  return expected.map((token) => token.text ?? (token.optional !== undefined
    ? `[${token.optional}]`
    : token.date ? '{date}' : '{any}')).join('')
}
