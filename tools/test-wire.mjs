// Wire tests: plays test/wire/*.txt against test/wire/app.mjs over raw sockets. Every case is sent
// whole, then cut in two at every octet (long ones: at a sample), then octet by octet; each time the
// server has to send the very same octets and to leave the connection in the same state.
//   node tools/test-wire.mjs [--engine native|node] [--parser llhttp] [--only WORD] [--whole] [--list]
import './node-version.mjs'
import { spawn } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { compare, parse, show } from './wire-format.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const folder = join(root, 'test', 'wire')

const TOGETHER = 32 // connections at a time
const PATIENCE_MS = 10_000 // for an answer; only a failing run waits as long
const PAUSE_MS = 30 // of a `pause`
const QUIET_MS = 80 // how long a `waiting` connection is watched
const GAP_MS = 1 // between two pieces, so that the server reads them one by one
const ALL_CUTS_UP_TO = 400 // octets; longer requests are cut at a sample of places
const SAMPLE = 60
const MAX_PIECES = 800

const PROBE = Buffer.from('GET /probe HTTP/1.1\r\nHost: probe\r\n\r\n')
const PROBE_ANSWER = parse('=== probe\n= 200 "probe"\nopen\n', 'probe').tests[0].steps[0].expect

// What --parser llhttp answers otherwise, as node:http does: docs/parsers.md says why.
const LLHTTP_DIFFERS = [
  /^two Host fields are refused/, /^a Host with a (space|path|user) is refused$/, /^a list of hosts is refused$/,
  /^a port (that is no number|above 65535) is refused$/, /^an IPv6 literal without its bracket is refused$/,
  /^a coding in HTTP\/1\.0 is refused$/, /^a coding before chunked is not implemented$/,
  /^a refusal, every octet of the answer$/, /^two empty lines before the request are refused$/,
  /^absolute-form with a user name is refused$/, /^a scheme that is not ours is refused$/, /^CONNECT wants a port$/,
  /^a fragment is refused$/, /^two spaces before the version are refused$/, /^a method of (more than )?64 octets /,
  /^methods are case-sensitive$/, /^a method that nobody knows is 405 too$/, /^HTTP\/1\.7 is answered as HTTP\/1\.1$/,
  /^another major version is not supported$/, /^the preface of HTTP\/2 is not supported$/,
  /^spaces around the number are not part of it$/ // before llhttp 9.4
]

const { values: options } = parseArgs({
  options: {
    engine: { type: 'string', default: 'native' },
    parser: { type: 'string', default: 'millrace' },
    only: { type: 'string' },
    whole: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false }
  }
})

/** One connection and what came back on it. */
class Talk {
  text = ''
  isEnded = false
  error = null
  #wake = () => {}

  constructor (port) {
    this.socket = connect({ port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true })
    this.socket.on('data', (chunk) => { this.text += chunk.toString('latin1'); this.#wake() })
    this.socket.on('end', () => { this.isEnded = true; this.#wake() })
    this.socket.on('error', (error) => { this.error = error; this.#wake() })
  }

  get isOver () { return this.isEnded || this.error !== null }

  /** Resolves when `holds` does, the connection is over, or patience is; the last test of all counts. */
  async until (holds) {
    let isLate = false
    const timer = setTimeout(() => { isLate = true; this.#wake() }, PATIENCE_MS)
    while (!holds() && !this.isOver && !isLate) await new Promise((resolve) => { this.#wake = resolve })
    clearTimeout(timer)
    return holds()
  }

  async send (bytes) {
    if (!this.isOver) await new Promise((resolve) => this.socket.write(bytes, resolve))
  }

  destroy () { this.socket.destroy() }
}

const complaint = (talk, expected, what) =>
  `${what}\n    wanted ${JSON.stringify(show(expected))}\n    came   ${JSON.stringify(talk.text)}`

/** Waits for all of `expected`; null, or the complaint. */
async function expectAll (talk, expected) {
  const settled = () => compare(expected, talk.text).state !== 'part'
  await talk.until(settled)
  const { state, at } = compare(expected, talk.text)
  if (state === 'full') return null
  if (state === 'differs') return complaint(talk, expected, `differs at octet ${at}`)
  if (talk.error) return complaint(talk, expected, `the connection broke (${talk.error.code})`)
  return complaint(talk, expected, talk.isEnded ? 'closed too early' : 'the answer did not come')
}

const endings = {
  async closed (talk, expected) {
    if (await talk.until(() => talk.isEnded)) return null
    return complaint(talk, expected, talk.error ? `reset instead of a FIN (${talk.error.code})` : 'was not closed')
  },
  async open (talk, expected) {
    if (talk.isOver) return complaint(talk, expected, 'was closed')
    await talk.send(PROBE)
    const wrong = await expectAll(talk, [...expected, ...PROBE_ANSWER])
    return wrong && `the connection should be open for another request: ${wrong}`
  },
  async waiting (talk, expected) {
    await sleep(QUIET_MS)
    return talk.isOver ? complaint(talk, expected, 'was closed') : null
  }
}

/** Cuts one send into pieces at the given offsets, which count over all sends of the case. */
function pieces (bytes, start, cuts) {
  const marks = cuts.filter((cut) => cut > start && cut < start + bytes.length).map((cut) => cut - start)
  return [0, ...marks].map((mark, i) => bytes.subarray(mark, marks[i] ?? bytes.length))
}

async function sendPieces (talk, list) {
  for (const [i, piece] of list.entries()) {
    if (i > 0) await sleep(GAP_MS)
    await talk.send(piece)
  }
}

/** Plays one case, cut at `cuts`; null, or the complaint. */
async function play (port, test, cuts) {
  const talk = new Talk(port)
  const expected = []
  let sent = 0
  try {
    for (const step of test.steps) {
      if (step.send) {
        await sendPieces(talk, pieces(step.send, sent, cuts))
        sent += step.send.length
      } else if (step.pause) await sleep(PAUSE_MS)
      else if (step.fin) talk.socket.end()
      else {
        expected.push(...step.expect)
        const wrong = await expectAll(talk, expected)
        if (wrong) return wrong
      }
    }
    const wrong = await endings[test.end](talk, expected) || await expectRest(talk, test, expected)
    return wrong
  } finally {
    talk.destroy()
  }
}

/** The state is right; nothing more than expected may have come with it. */
async function expectRest (talk, test, expected) {
  return test.end === 'open' ? null : expectAll(talk, expected)
}

const octets = (test) => test.steps.reduce((sum, step) => sum + (step.send ? step.send.length : 0), 0)

/** All ways to cut one case; each is a list of offsets. */
function cutsOf (test) {
  const total = octets(test)
  if (test.whole || total < 2) return []
  const count = total <= ALL_CUTS_UP_TO ? total - 1 : SAMPLE
  const single = Array.from({ length: count }, (_, i) => [1 + Math.floor(i * (total - 1) / count)])
  const size = Math.ceil(total / MAX_PIECES)
  const every = Array.from({ length: Math.ceil(total / size) - 1 }, (_, i) => (i + 1) * size)
  return [...single, every]
}

/** Runs jobs (functions that return promises), a bounded number at a time. */
async function runAll (jobs) {
  const queue = jobs[Symbol.iterator]()
  await Promise.all(Array.from({ length: TOGETHER }, async () => {
    for (const job of queue) await job()
  }))
}

const place = (cuts) => cuts.length === 0 ? 'whole' : cuts.length === 1 ? `cut at octet ${cuts[0]}` : 'in small pieces'

async function runFile (port, file, tally) {
  const failed = new Map()
  const job = (test, cuts) => async () => {
    if (failed.has(test)) return // one complaint for each case
    tally.runs++
    const wrong = await play(port, test, cuts)
    if (wrong && !failed.has(test)) failed.set(test, `${place(cuts)}: ${wrong}`)
  }
  await runAll(file.tests.map((test) => job(test, [])))
  if (!options.whole) {
    await runAll(file.tests.flatMap((test) => cutsOf(test).map((cuts) => job(test, cuts))))
  }
  for (const [test, wrong] of failed) console.log(`FAIL ${test.where} ${test.name}\n  ${wrong}`)
  tally.passed += file.tests.length - failed.size
  tally.failed += failed.size
}

/** Starts the application under test; resolves to { port, engine, stop } or rejects. */
function startApp (serverOptions) {
  const child = spawn(process.execPath, [join(folder, 'app.mjs')], {
    env: { ...process.env, MILLRACE_ENGINE: options.engine, WIRE_OPTIONS: JSON.stringify({ ...serverOptions, parser: options.parser }) },
    stdio: ['pipe', 'pipe', 'inherit']
  })
  const exited = new Promise((resolve) => child.once('exit', resolve))
  const stop = async () => {
    child.stdin.end() // the application leaves when its stdin closes
    const timer = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS)
    await exited
    clearTimeout(timer)
    return child.exitCode
  }
  return new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).once('line', (line) => resolve({ ...JSON.parse(line), stop }))
    exited.then((code) => reject(new Error(`test/wire/app.mjs ended with ${code} before it listened`)))
  })
}

async function testFile (file, tally) {
  const before = tally.failed
  const app = await startApp(file.server)
  if (app.engine !== options.engine) throw new Error(`asked for the ${options.engine} engine, got ${app.engine}`)
  await runFile(app.port, file, tally)
  const code = await app.stop()
  if (code !== 0) {
    tally.failed++
    console.log(`FAIL ${file.file}: the server ended with ${code}`)
  }
  console.log(`${tally.failed === before ? 'ok  ' : 'FAIL'} ${file.file} (${file.tests.length} cases)`)
}

function load () {
  const isListed = (name) => options.parser === 'llhttp' && LLHTTP_DIFFERS.some((pattern) => pattern.test(name))
  const wanted = ({ name, where }) => !isListed(name) && (!options.only || `${where} ${name}`.includes(options.only))
  const files = readdirSync(folder).filter((name) => name.endsWith('.txt')).sort()
    .map((name) => parse(readFileSync(join(folder, name), 'utf8'), `test/wire/${name}`))
  for (const file of files) file.tests = file.tests.filter(wanted)
  return files.filter((file) => file.tests.length > 0)
}

const tally = { passed: 0, failed: 0, runs: 0 }
try {
  const files = load()
  if (options.list) {
    for (const file of files) for (const test of file.tests) console.log(`${test.where} ${test.name}`)
  } else {
    for (const file of files) await testFile(file, tally)
  }
} catch (error) {
  tally.failed++
  console.log(`FAIL ${error.message}`)
}
if (!options.list) {
  console.log(`${tally.runs} connections`)
  console.log(`${tally.passed} passed, ${tally.failed} failed`)
  process.exitCode = tally.failed === 0 && tally.passed > 0 ? 0 : 1
}
