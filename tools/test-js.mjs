// Runs files of node:test, each in a process of its own, and closes with `N passed, N failed`. Prints
// failures only, and at the end what was skipped, one line a reason; a file that hangs is stopped and
// named. MILLRACE_ENGINE chooses the engine.
//   node tools/test-js.mjs test/js/*.test.js
import './node-version.mjs'
import { spawn } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const FILE_MS = 90_000 // a file that takes longer hangs
const TOGETHER = 2
const CLOSING = /^(\d+) passed, (\d+) failed\n/m
const STARTED = /^>> (.*)\n/gm
const SKIPPED = /^skipped: (.*) \((.*)\)\n/gm // a name may have ' (', reasons do not
const SKIPS = /^\d+ skipped\n/gm

const reporter = pathToFileURL(join(dirname(fileURLToPath(import.meta.url)), 'reporter.mjs')).href

/** Runs one file; resolves to { code, text, isLate }. */
function runFile (file) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, ['--test-reporter', reporter, '--test-reporter-destination', 'stdout', file], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, MILLRACE_TEST_TRACE: '1' }
    })
    let text = ''
    let isLate = false
    child.stdout.setEncoding('utf8').on('data', (chunk) => { text += chunk })
    child.stderr.setEncoding('utf8').on('data', (chunk) => { text += chunk })
    const timer = setTimeout(() => { isLate = true; child.kill('SIGKILL') }, FILE_MS)
    child.once('exit', (code, signal) => {
      clearTimeout(timer)
      // A process that it left behind may hold the pipes open; what it still says is not waited for.
      setTimeout(() => { child.stdout.destroy(); child.stderr.destroy() }, 500).unref()
      child.once('close', () => resolve({ code, signal, text, isLate }))
    })
  })
}

const skips = new Map() // reason -> names of tests

/** The output without its lines about skips, which are kept for the end. */
function takeSkips (text) {
  for (const [, name, reason] of text.matchAll(SKIPPED)) skips.set(reason, [...skips.get(reason) ?? [], name])
  return text.replace(SKIPPED, '').replace(SKIPS, '')
}

/** What one run adds: a file that ends badly by itself, or tests nothing, is one failure. */
function judge (file, { code, signal, text, isLate }) {
  const found = CLOSING.exec(text)
  const [passed, failed] = found ? [Number(found[1]), Number(found[2])] : [0, 0]
  const rest = takeSkips(text.replace(CLOSING, '').replace(STARTED, '')).trimEnd()
  const last = [...text.matchAll(STARTED)].at(-1)
  const endedBadly = failed === 0 && (code !== 0 || !found)
  const why = isLate ? `stopped after ${FILE_MS / 1000} s, in "${last ? last[1] : 'nothing yet'}"` : signal ? `ended by ${signal}` : `ended with ${code}`
  if (endedBadly) console.log(`FAIL ${file}: ${why}`)
  else if (failed > 0) console.log(`FAIL ${file}`)
  if (rest) console.log(rest)
  return [passed, failed + (endedBadly ? 1 : 0)]
}

const files = process.argv.slice(2)
const queue = files[Symbol.iterator]()
let [passed, failed] = [0, 0]
await Promise.all(Array.from({ length: TOGETHER }, async () => {
  for (const file of queue) {
    const [good, bad] = judge(file, await runFile(file))
    passed += good
    failed += bad
  }
}))
for (const [reason, names] of skips) console.log(`skipped: ${names.length === 1 ? names[0] : `${names.length} tests`} (${reason})`)
console.log(`${passed} passed, ${failed} failed`)
process.exitCode = failed === 0 && passed > 0 ? 0 : 1
