'use strict'
// Runs a function of a test file in a process of its own. The function is sent as text: it sees
// nothing of the file around it, only its arguments and require(), which resolves from this folder.

const { spawn } = require('node:child_process')
const assert = require('node:assert')

const PATIENCE = 60000 // ends a child that hangs; nothing is measured by it
const END = 'reached the end'

function codeOf (fn, args) {
  return `Promise.resolve((${fn})(${args.map((arg) => JSON.stringify(arg)).join(', ')}))` +
    `.then(() => console.log('${END}'), (err) => { console.error(err); process.exit(99) })`
}

function commandOf (code, { descriptors, flags = [] }) {
  const node = [process.execPath, ...flags, '-e', code]
  return descriptors === undefined ? node : ['/bin/sh', '-c', `ulimit -n ${descriptors}; exec "$@"`, 'sh', ...node]
}

// Starts it. `result` resolves to { code, signal, out, err, isThrough } when it has ended.
function start (fn, { args = [], ipc = false, ...options } = {}) {
  const [command, ...rest] = commandOf(codeOf(fn, args), options)
  const stdio = ['ignore', 'pipe', 'pipe', ...(ipc ? ['ipc'] : [])]
  const child = spawn(command, rest, { cwd: __dirname, stdio, env: { ...process.env, MILLRACE_ENGINE: 'native' } })
  let out = ''
  let err = ''
  child.stdout.setEncoding('utf8').on('data', (text) => { out += text })
  child.stderr.setEncoding('utf8').on('data', (text) => { err += text })
  const timer = setTimeout(() => {
    err += '\nit hung and was ended\n'
    child.kill('SIGKILL')
  }, PATIENCE)
  const result = new Promise((resolve) => {
    child.once('close', (code, signal) => {
      clearTimeout(timer)
      resolve({ code, signal, out, err, isThrough: out.includes(END) })
    })
  })
  return { child, result }
}

// Runs it to its own end: it must reach it, exit by itself with 0, and (unless said otherwise) say
// nothing on stderr. What it printed besides goes to the test's diagnostics.
async function run (t, fn, { isQuiet = true, ...options } = {}) {
  const { code, signal, out, err, isThrough } = await start(fn, options).result
  assert.deepStrictEqual({ code, signal, isThrough }, { code: 0, signal: null, isThrough: true }, `${err}\n${out}`)
  if (isQuiet) assert.strictEqual(err, '')
  for (const line of out.split('\n')) if (line !== '' && line !== END) t.diagnostic(line)
  return { out, err }
}

module.exports = { start, run }
