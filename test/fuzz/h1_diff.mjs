// The differential run: our parser and the host's llhttp get the same bytes, and every disagreement
// must be one that docs/parsers.md lists. Deterministic: the same seed, the same inputs.
//   node test/fuzz/h1_diff.mjs [--inputs N] [--seed N] [--show KIND]
// Exit 77: cannot run here, the last line says why.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, readdirSync, realpathSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { METHODS as METHOD_LIST } from 'node:http'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { findCompiler, headersPrefix } from '../../tools/build.mjs'

const here = dirname(fileURLToPath(import.meta.url))
const root = join(here, '..', '..')
const source = join(here, 'h1_diff.c')
const FLAGS = ['-std=c11', '-O2', '-g', '-fPIC', '-shared', '-fvisibility=hidden', '-DMR_DIFF_ADDON', '-DNAPI_VERSION=8']
const DIFFERENCES = ['verdict', 'method', 'target', 'fields', 'framing', 'persistence', 'rest', 'ours-cut', 'theirs-cut', 'body']

// ---- the addon ----

/** Why the run is impossible on this machine; not a failure. */
export class Impossible extends Error {}

function sources () {
  const linked = [...readFileSync(source, 'utf8').matchAll(/\/\* link: ([^*]*)\*\//g)]
  return [source, ...linked.flatMap(([, list]) => list.trim().split(/\s+/)).map((file) => join(root, 'src', file))]
}

function newest () {
  const headers = ['base', 'proto', 'binding', 'engine'].flatMap((layer) => readdirSync(join(root, 'src', layer))
    .map((name) => join(root, 'src', layer, name)))
  return Math.max(...[source, ...headers].map((file) => statSync(file).mtimeMs))
}

function build (file) {
  let compiler
  try {
    compiler = findCompiler()
  } catch (error) {
    throw new Impossible(error.message)
  }
  const prefix = headersPrefix()
  if (prefix === null) throw new Impossible('The headers of this Node (include/node) are not beside it.')
  const [command, ...words] = compiler.trim().split(/\s+/)
  const system = process.platform === 'darwin' ? ['-undefined', 'dynamic_lookup'] : []
  const built = spawnSync(command, [...words, ...FLAGS, ...system, '-I', join(root, 'src'),
    '-isystem', join(prefix, 'include', 'node'), ...sources(), '-o', file], { encoding: 'utf8' })
  if (built.status !== 0) throw new Error(`The differential addon does not build:\n${built.stderr}`)
}

/** The addon, with llhttp found in this process. */
export function load () {
  const file = join(root, 'build-fuzz', `h1_diff-abi${process.versions.modules}.node`)
  mkdirSync(dirname(file), { recursive: true })
  const made = statSync(file, { throwIfNoEntry: false })
  if (made === undefined || made.mtimeMs <= newest()) build(file)
  const addon = createRequire(import.meta.url)(file)
  const refusal = addon.open()
  if (refusal !== '') throw new Impossible(refusal)
  return addon
}

// ---- the listed differences ----
// Each has a predicate on the message and a repair that takes just the listed thing away. A
// disagreement is explained when both sides agree once everything listed in it is repaired, so
// nothing else can hide behind a kind. One char is one octet throughout.

const AGAIN = 1 // mr_rc
const OURS = 0 // where a side's verdict begins
const THEIRS = 8
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const METHODS = new Set(METHOD_LIST) // those that this llhttp knows

/** The message in parts: empty lines in front, request line, field lines, and the rest as it is. */
function split (text) {
  const [front] = /^[\r\n]*/.exec(text)
  const end = text.indexOf('\r\n\r\n', front.length)
  const head = end < 0 ? text.slice(front.length) : text.slice(front.length, end)
  const [line, ...fields] = head.split('\r\n')
  const words = line.split(' ')
  const isRegular = words.length === 3
  return {
    front, line, fields, isRegular, rest: end < 0 ? '' : text.slice(end),
    method: words[0], target: words[1] ?? '', version: words[2] ?? ''
  }
}

function glue (m) {
  const line = m.isRegular ? `${m.method} ${m.target} ${m.version}` : m.line
  return m.front + [line, ...m.fields].join('\r\n') + m.rest
}

const nameOf = (line) => /^([^:]*):/.exec(line)?.[1].toLowerCase() ?? ''
const valueOf = (line) => line.slice(line.indexOf(':') + 1).replace(/^[ \t]+|[ \t]+$/g, '')
const named = (m, name) => m.fields.filter((line) => nameOf(line) === name)
const without = (m, name) => { m.fields = m.fields.filter((line) => nameOf(line) !== name) }
const options = (m) => named(m, 'connection').flatMap((line) => valueOf(line).toLowerCase().split(/[ \t]*,[ \t]*/))
const FRAMING_NAMES = /^(content-length|transfer-encoding|connection|proxy-connection|upgrade)$/

/**
 * Walks a chunked body as far as it came; `change` gets { size, extension, isCut, trailers } of each
 * chunk and gives one back, or null to cut the body off in front of it.
 */
function mapChunks (rest, change) {
  const body = rest.slice(4)
  let out = rest.slice(0, 4)
  let at = 0
  for (;;) {
    const line = /^([0-9A-Fa-f]+)([^\r\n]*)(\r\n|\r?$)/.exec(body.slice(at))
    if (line === null) return out + body.slice(at)
    const [all, digits, extension, end] = line
    const size = BigInt('0x' + digits)
    const trailers = size === 0n && end === '\r\n' ? body.slice(at + all.length).split('\r\n') : null
    const chunk = change({ size, extension, isCut: end !== '\r\n', trailers })
    if (chunk === null) return out
    out += digits + chunk.extension + end
    if (trailers !== null) return out + chunk.trailers.join('\r\n')
    at += all.length
    const data = body.slice(at, at + (size > BigInt(body.length) ? body.length : Number(size)))
    out += data
    at += data.length
    if (!body.startsWith('\r\n', at)) return out + body.slice(at)
    out += '\r\n'
    at += 2
  }
}

/** Trailer lines, up to the empty one, without those that are about framing. */
function plainTrailers (lines) {
  const end = lines.indexOf('')
  return lines.filter((line, i) => (end >= 0 && i >= end) || !FRAMING_NAMES.test(nameOf(line)))
}

const KINDS = {
  // RFC 9112 2.2: nothing is decided in the middle of a line here; llhttp refuses at the first wrong
  // octet. Judged with the line ended, and the head.
  sooner: (m, { isOpen }) => { if (isOpen) m.rest += '\r\n\r\n' },
  // RFC 9112 2.2: one empty line in front of a request line is ignored; llhttp takes any number,
  // and lone CR and LF.
  'empty-lines': (m) => { if (m.front !== '\r\n') m.front = '' },
  // RFC 9110 9.1: a method is a token, and only the application knows them all.
  method: (m) => { if (m.isRegular && TOKEN.test(m.method) && m.method.length <= 64 && !METHODS.has(m.method)) m.method = 'GET' },
  // RFC 9110 2.5: a higher minor version is read as the highest that is known.
  'minor-version': (m) => { if (/^HTTP\/1\.[2-9]$/.test(m.version)) m.version = 'HTTP/1.1' },
  // RFC 9112 3: one SP stands between the parts of the request line.
  'two-spaces': (m) => { m.line = m.line.replace(/^(\S+ \S+) +(HTTP\/)/, '$1 $2') },
  // RFC 9112 3.2, RFC 3986 3.5: a fragment is no part of a request target.
  fragment: (m) => { if (m.isRegular) m.target = m.target.replace(/^([^#]+)#.*$/, '$1') },
  // RFC 9110 4.2.1 (empty host), 4.2.4 (user information), RFC 3986 3.2 (host and port), and schemes
  // that this server does not serve.
  absolute: (m) => { if (m.isRegular && m.method !== 'CONNECT' && /^[A-Za-z]+:\/\//.test(m.target)) m.target = '/' },
  // RFC 9112 3.2.3: CONNECT has host and port.
  connect: (m) => { if (m.isRegular && m.method === 'CONNECT') m.target = 'x:1' },
  // RFC 9110 9.3.6: CONNECT has no content, so llhttp does not look at its coding; we do.
  'connect-coding': (m) => { if (m.method === 'CONNECT') without(m, 'transfer-encoding') },
  // RFC 9112 3.2: one Host, and a valid one.
  host: (m) => {
    let count = 0
    m.fields = m.fields.flatMap((line) => nameOf(line) !== 'host' ? [line] : count++ === 0 ? ['Host: x'] : [])
  },
  // RFC 9112 6.1: HTTP/1.0 has no transfer codings.
  'coding-in-1.0': (m) => {
    if (m.version !== 'HTTP/1.0' || named(m, 'transfer-encoding').length === 0) return
    m.version = 'HTTP/1.1'
    if (named(m, 'host').length === 0) m.fields.unshift('Host: x')
  },
  // RFC 9112 6.3: the last coding decides; in llhttp before 9.4 an empty field line behind a chunked
  // one leaves the message chunked.
  'empty-coding': (m) => {
    const lines = named(m, 'transfer-encoding')
    while (lines.length > 1 && valueOf(lines.at(-1)) === '') m.fields.splice(m.fields.lastIndexOf(lines.pop()), 1)
  },
  // RFC 9112 6.1 and 7: codings other than chunked are not decoded here, and llhttp leaves them to
  // the application; it looks at nothing but the last one, which has to be chunked.
  codings: (m) => {
    const lines = named(m, 'transfer-encoding')
    if (lines.length === 0 || !/(^|,[ \t]*)chunked *$/i.test(lines.at(-1).replace(/^[^:]*:[ \t]*/, ''))) return
    without(m, 'transfer-encoding')
    m.fields.push('Transfer-Encoding: chunked')
  },
  // RFC 9110 5.6.3: HTAB is whitespace like SP around a value; llhttp does not take it everywhere.
  tab: (m) => { m.fields = m.fields.map((line) => FRAMING_NAMES.test(nameOf(line)) ? line.replaceAll('\t', '') : line) },
  // Not in an RFC: we count content with 63 bits, llhttp with 64. Both end in 413 at the latest.
  'huge-length': (m) => {
    m.fields = m.fields.map((line) => nameOf(line) === 'content-length' && /^\d{19,}$/.test(valueOf(line)) && BigInt(valueOf(line)) >= 1n << 63n && BigInt(valueOf(line)) < 1n << 64n ? 'Content-Length: 1' : line)
  },
  // RFC 9112 9.3: close wins, in HTTP/1.0 too.
  'close-in-1.0': (m) => {
    if (m.version === 'HTTP/1.0' && options(m).includes('close') && options(m).includes('keep-alive')) without(m, 'connection')
  },
  // RFC 9112 C.2.2: Proxy-Connection means nothing to a server; llhttp reads it like Connection.
  'proxy-connection': (m) => { without(m, 'proxy-connection') },
  // RFC 9112 7.1.1: whitespace around ";" and "=", and empty names and values, which llhttp takes or
  // refuses the other way round.
  'chunk-extension': (m) => {
    m.rest = mapChunks(m.rest, (chunk) => {
      const isExtension = /^[ \t]*;/.test(chunk.extension) || (chunk.isCut && /^[ \t]+$/.test(chunk.extension))
      return isExtension ? { ...chunk, extension: '' } : chunk
    })
  },
  // Not in an RFC: a chunk of 2^63 octets or more, as with Content-Length. Refused at the digit.
  'huge-chunk': (m) => { m.rest = mapChunks(m.rest, (chunk) => chunk.size >= 1n << 63n ? null : chunk) },
  // RFC 9110 6.5.1: fields about framing are ignored in a trailer; llhttp heeds them there.
  trailer: (m) => {
    m.rest = mapChunks(m.rest, (chunk) => chunk.trailers === null ? chunk : { ...chunk, trailers: plainTrailers(chunk.trailers) })
  }
}

/** The input without what `kind` lists, or null when there is nothing of it. */
function repaired (addon, input, kind) {
  addon.compare(input)
  const verdicts = addon.verdicts()
  const m = split(input.toString('latin1', 2))
  KINDS[kind](m, { isOpen: verdicts[OURS] === AGAIN || verdicts[THEIRS] === AGAIN })
  const next = Buffer.concat([input.subarray(0, 2), Buffer.from(glue(m), 'latin1')])
  return next.equals(input) ? null : next
}

/** The listed kinds that it takes to make both sides agree (one, if one will do), or null. */
export function explain (addon, input) {
  const kinds = Object.keys(KINDS)
  for (const kind of kinds) {
    const next = repaired(addon, input, kind)
    if (next !== null && addon.compare(next) === 0) return [kind]
  }
  const found = []
  for (const kind of kinds) {
    const next = repaired(addon, input, kind)
    if (next === null) continue
    found.push(kind)
    input = next
    if (addon.compare(input) === 0) return found
  }
  return null
}

// ---- inputs ----

/** xorshift32: the same inputs on every machine. */
class Chance {
  #state
  constructor (seed) { this.#state = (seed * 2654435761 >>> 0) || 1 }

  below (most) {
    let x = this.#state
    x ^= x << 13
    x ^= x >>> 17
    x ^= x << 5
    this.#state = x >>> 0
    return this.#state % most
  }

  of (list) { return list[this.below(list.length)] }
  often (times) { return this.below(times) !== 0 }
}

const WORDS = {
  method: ['GET', 'GET', 'POST', 'PUT', 'HEAD', 'OPTIONS', 'CONNECT', 'DELETE', 'QUERY', 'FOO', 'get', 'M-SEARCH', 'SOURCE', 'PRI', 'MKCALENDAR'],
  target: ['/', '/', '/a?b=1', '/a%20b/../c', '*', 'http://h/p?q', 'https://h:8443', 'http://u@h/', 'ftp://h/', 'h:443', '/a#b', '/\xe4', 'http://[::1]:8/', 'http://', '/"<>|', '//a'],
  version: ['HTTP/1.1', 'HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0', 'HTTP/1.2', 'HTTP/2.0', 'HTTP/0.9', 'http/1.1', 'RTSP/1.0', 'HTTP/1.', ' HTTP/1.1'],
  field: ['Host: x', 'Host: a.b:80', 'host:', 'Host: a b', 'Content-Length: 3', 'Content-Length: 0', 'content-length:3 ', 'Content-Length: 03', 'Content-Length: 18446744073709551615',
    'Content-Length: 99999999999999999999', 'Content-Length: +1', 'Content-Length: 1, 1', 'Transfer-Encoding: chunked', 'Transfer-Encoding: chunked', 'Transfer-Encoding: gzip, chunked',
    'transfer-encoding:CHUNKED', 'Transfer-Encoding: chunked, gzip', 'Transfer-Encoding: identity', 'Transfer-Encoding:', 'Transfer-Encoding: xchunked', 'Transfer-Encoding: chunked;q=1', 'Transfer-Encoding: chunked\t', 'Connection: close',
    'Connection: keep-alive', 'Connection: keep-alive, Upgrade', 'Connection: close, x', 'connection:\tclose', 'Connection: closed', 'Connection: x close', 'Upgrade: websocket', 'Expect: 100-continue', 'Expect: x', 'Proxy-Connection: keep-alive',
    'Accept: */*', 'Empty:', 'Empty: \t ', 'X: a  b\t', 'X : a', ' X: a', 'X: \x80\xff', 'X: a\x00b', 'X: a\rb', 'X: a\nb', ': x', 'X', 'X: a\r\n b', 'Keep-Alive: timeout=5', 'Upgrade-Insecure-Requests: 1', 'Cookie: a=b; c="d"'],
  size: ['3', '3', '03', '0', 'a', '3;x', '3;x=y', '3;x="y z"', '3 ;x', '3; x', '3;x=', '3;', '3 ', '3\t', ' 3', '0x3', 'ffffffffffffffff', '7fffffffffffffff', '8000000000000000', '10000000000000000', '3;x=\x80', '3;"x"', '3;x="\\""'],
  trailer: ['T: u', 'T:', 'Content-Length: 5', 'Transfer-Encoding: chunked', 'T : u', ' u', 'T: \x01'],
  end: ['\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\n', '\r', '\r\r\n', ' \r\n']
}

function chunks (chance) {
  let text = ''
  for (let left = chance.below(3); left > 0; left--) text += chance.of(WORDS.size) + chance.of(WORDS.end) + 'abc' + chance.of(WORDS.end)
  text += (chance.often(8) ? '0' : chance.of(WORDS.size)) + chance.of(WORDS.end)
  for (let left = chance.below(3); left > 1; left--) text += chance.of(WORDS.trailer) + chance.of(WORDS.end)
  return text + '\r\n'
}

function generated (chance) {
  const { method, target, version, field, end } = WORDS
  let text = chance.often(12) ? '' : chance.of(['\r\n', '\r\n\r\n', '\n', '\r'])
  text += `${chance.of(method)} ${chance.of(target)} ${chance.of(version)}${chance.of(end)}`
  if (chance.often(6)) text += 'Host: h\r\n'
  for (let left = chance.below(5); left > 0; left--) text += chance.of(field) + chance.of(end)
  text += chance.of(end)
  text += chance.often(2) ? chance.of(['', 'abc', 'GET /']) : chunks(chance) + chance.of(['', 'GET /'])
  return Buffer.concat([Buffer.from([chance.often(5) ? 0 : chance.below(4), chance.below(40)]), Buffer.from(text, 'latin1')])
}

/** A good head, so that the body is what counts. */
function chunkedRequest (chance) {
  const text = 'POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n' + chunks(chance) + chance.of(['', 'GET /'])
  return Buffer.concat([Buffer.from([0, chance.below(40)]), Buffer.from(text, 'latin1')])
}

function fresh (chance) {
  const input = chance.often(3) ? generated(chance) : chunkedRequest(chance)
  return chance.often(3) ? input : mutated(input, chance)
}

const OCTETS = [0, 9, 10, 11, 12, 13, 31, 32, 33, 34, 35, 42, 44, 47, 48, 58, 59, 61, 63, 64, 65, 97, 127, 128, 255]

const MUTATIONS = [
  (bytes, at, chance) => { bytes[at] ^= 1 << chance.below(8); return bytes },
  (bytes, at, chance) => { bytes[at] = chance.of(OCTETS); return bytes },
  (bytes, at, chance) => Buffer.concat([bytes.subarray(0, at), Buffer.from([chance.of(OCTETS)]), bytes.subarray(at)]),
  (bytes, at, chance) => Buffer.concat([bytes.subarray(0, at), bytes.subarray(Math.min(bytes.length, at + 1 + chance.below(8)))]),
  (bytes, at, chance) => Buffer.concat([bytes.subarray(0, at), bytes.subarray(at, at + chance.below(60)), bytes.subarray(at)]),
  (bytes, at) => Buffer.from(bytes.subarray(0, at)),
  (bytes, at, chance) => {
    const line = bytes.indexOf('\r\n', at)
    const text = Buffer.from('\r\n' + chance.of(WORDS.field), 'latin1')
    return line < 0 ? bytes : Buffer.concat([bytes.subarray(0, line), text, bytes.subarray(line)])
  }
]

function mutated (seed, chance) {
  let bytes = Buffer.from(seed)
  for (let left = 1 + chance.below(3); left > 0 && bytes.length > 2; left--) {
    bytes = chance.of(MUTATIONS)(bytes, 2 + chance.below(bytes.length - 2), chance)
  }
  return bytes
}

function seeds () {
  return ['h1_head', 'h1_diff'].flatMap((name) => {
    const folder = join(here, 'corpus', name)
    return readdirSync(folder).sort().map((file) => ({ name: relative(root, join(folder, file)), bytes: readFileSync(join(folder, file)) }))
  })
}

// ---- the run ----

const bitsOf = (found) => DIFFERENCES.filter((name, i) => found & 1 << i)

/**
 * Compares the seeds, then `count` generated and mutated inputs. Resolves to { inputs, agreed, kinds,
 * unlisted }: kinds counts how often each listed difference was met, unlisted holds at most ten.
 */
export function run (addon, count, seed = 1, onKind = () => {}) {
  const chance = new Chance(seed)
  const given = seeds()
  const kinds = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, 0]))
  const result = { inputs: 0, agreed: 0, kinds, unlisted: [] }
  const take = (input, name) => {
    const found = addon.compare(input)
    if (found === undefined) return // too short or too long to be an input
    result.inputs++
    if (found === 0) {
      result.agreed++
      return
    }
    const met = bitsOf(found).some((bit) => bit.endsWith('-cut')) ? null : explain(addon, input)
    if (met === null && result.unlisted.length < 10) {
      addon.compare(input)
      result.unlisted.push({ name, differs: bitsOf(found), verdicts: [...addon.verdicts()], input: JSON.stringify(input.toString('latin1')) })
    }
    for (const kind of met ?? []) {
      kinds[kind]++
      onKind(kind, input)
    }
  }
  for (const { name, bytes } of given) take(bytes, name)
  for (let i = 0; i < count && result.unlisted.length < 10; i++) {
    take(chance.often(2) ? mutated(chance.of(given).bytes, chance) : fresh(chance), `input ${i}`)
  }
  return result
}

function main () {
  const { values } = parseArgs({
    options: { inputs: { type: 'string', default: '200000' }, seed: { type: 'string', default: '1' }, show: { type: 'string' } }
  })
  let addon
  try {
    addon = load()
  } catch (error) {
    if (!(error instanceof Impossible)) throw error
    console.log(error.message)
    return 77
  }
  const begun = performance.now()
  const result = run(addon, Number(values.inputs), Number(values.seed), (kind, input) => {
    if (kind === values.show) console.log(JSON.stringify(input.toString('latin1', 2)))
  })
  const seconds = (performance.now() - begun) / 1000
  for (const one of result.unlisted) console.log(`UNLISTED ${one.name}: ${one.differs.join(', ')}\n  ${one.input}\n  rc, status, flags, head, target, method: ours ${one.verdicts.slice(0, 8)}; llhttp ${one.verdicts.slice(8)}`)
  for (const [kind, times] of Object.entries(result.kinds)) console.log(`${kind.padEnd(18)}${times}`)
  console.log(`llhttp ${process.versions.llhttp}: ${result.inputs} inputs in ${seconds.toFixed(1)} s, ${result.agreed} agreed at once, ${result.unlisted.length} unlisted differences`)
  return result.unlisted.length === 0 ? 0 : 1
}

if (process.argv[1] && realpathSync(process.argv[1]) === realpathSync(fileURLToPath(import.meta.url))) process.exitCode = main()
