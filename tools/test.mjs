// `npm test`: sets the checkout up if need be, then runs every tier of tests and adds them up. The
// last line is `N passed, N failed`.
//   node tools/test.mjs [--only PART,PART]
import './node-version.mjs'
import { spawn } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { SetupError, ensureBinary, report, root } from './build.mjs'
import { areModulesInstalled, ensureModules } from './setup.mjs'

const PART_MS = 12 * 60_000 // a part that takes longer hangs
const CLOSING = /^(\d+) passed, (\d+) failed$/gm

let current = null // the child that runs, so that an interrupt ends it as well

/** Runs one command with its output passed on; resolves to { code, text }. */
function run (command, args, env = {}) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd: root,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true // a group of its own, so that a hanging part ends with its children
    })
    current = child
    let text = ''
    const take = (chunk) => { text += chunk; process.stdout.write(chunk) }
    child.stdout.setEncoding('utf8').on('data', take)
    child.stderr.setEncoding('utf8').on('data', take)
    const timer = setTimeout(() => {
      take(`stopped after ${PART_MS / 60_000} minutes\n`)
      endGroup(child)
    }, PART_MS)
    const done = (code) => { clearTimeout(timer); current = null; resolve({ code, text }) }
    child.once('error', (error) => { take(`${command}: ${error.message}\n`); done(1) })
    child.once('close', (code) => done(code ?? 1))
  })
}

function endGroup (child) {
  try {
    process.kill(-child.pid, 'SIGKILL')
  } catch {
    // it has just ended
  }
}

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    if (current) endGroup(current)
    process.exit(1)
  })
}

/** The counts of a command that closes with its own sum; a bad exit code is never 0 failed. */
async function summed (command, args, env) {
  const { code, text } = await run(command, args, env)
  const last = [...text.matchAll(CLOSING)].at(-1)
  const [passed, failed] = last ? [Number(last[1]), Number(last[2])] : [0, 0]
  const isBad = code !== 0 || passed + failed === 0
  return { passed, failed: isBad ? Math.max(failed, 1) : failed }
}

/** A command that passes or fails as a whole. */
async function single (command, args, env) {
  const { code } = await run(command, args, env)
  return code === 0 ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 }
}

const add = (...counts) => ({
  passed: counts.reduce((sum, count) => sum + count.passed, 0),
  failed: counts.reduce((sum, count) => sum + count.failed, 0)
})

const list = (folder, pattern) => {
  const dir = join(root, folder)
  return existsSync(dir) ? readdirSync(dir).filter((name) => pattern.test(name)).sort() : []
}

async function nodeTests (folder, engine, env = {}) {
  const files = list(folder, /\.test\.js$/).map((name) => join(folder, name))
  if (files.length === 0) {
    console.log(`${folder} holds no tests`)
    return { passed: 0, failed: 1 }
  }
  return summed(process.execPath, ['tools/test-js.mjs', ...files], { MILLRACE_ENGINE: engine, ...env })
}

/** Each file under test/types is one test; tsc names those that do not compile as they should. */
async function typeTests () {
  if (!areModulesInstalled()) {
    console.log('typescript is not installed')
    return { passed: 0, failed: 1 }
  }
  const files = list('test/types', /\.[cm]?ts$/)
  const { code, text } = await run(process.execPath, [join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '--noEmit', '-p', 'test/types'])
  const bad = files.filter((name) => text.includes(`test/types/${name}(`)).length
  const failed = code === 0 ? 0 : Math.max(bad, 1)
  console.log(`${files.length} files`)
  return { passed: Math.max(files.length - failed, 0), failed: files.length === 0 ? 1 : failed }
}

const tool = (name, ...args) => summed(process.execPath, [join('tools', name), ...args])

// Exit 77, and why, where llhttp cannot be had.
const ASK_FOR_LLHTTP = `
  const { ok, reason } = require('./lib').probe().capabilities.llhttp
  if (!ok) console.log('skipped: --parser llhttp (' + reason + ')')
  process.exitCode = ok ? 0 : 77`

/** With both parsers, or with ours alone where this Node's llhttp cannot be used. */
async function wireTests () {
  const ours = await tool('test-wire.mjs')
  const { code } = await run(process.execPath, ['-e', ASK_FOR_LLHTTP], { MILLRACE_ENGINE: 'native' })
  if (code === 77) return ours
  return add(ours, await tool('test-wire.mjs', '--parser', 'llhttp'))
}

const ON_UV = { MILLRACE_TRANSPORT: 'uv' }

const PARTS = {
  lint: async () => add(
    await single(process.execPath, ['tools/check-layers.mjs']),
    await single('sh', ['tools/check-globals.sh'])),
  c: () => tool('test-c.mjs'),
  native: () => nodeTests('test/js', 'native'),
  node: () => nodeTests('test/js', 'node'),
  proc: () => nodeTests('test/proc', 'native'),
  fleet: () => nodeTests('test/fleet', 'native'),
  wire: wireTests,
  // The same tests; on Linux it is not the default, and elsewhere it is what those above ran on.
  uv: async () => add(
    await nodeTests('test/js', 'native', ON_UV),
    await nodeTests('test/proc', 'native', ON_UV),
    await summed(process.execPath, ['tools/test-wire.mjs'], ON_UV)),
  types: typeTests,
  fuzz: () => tool('fuzz.mjs', '--replay')
}

const TITLES = {
  lint: 'layers and globals',
  c: 'C modules, under sanitizers',
  native: 'JavaScript API on the native engine',
  node: 'JavaScript API on node:http',
  proc: 'child processes',
  fleet: 'threads as one server',
  wire: 'octets on the wire, with both parsers',
  uv: 'API, processes and octets on libuv streams',
  types: 'types',
  fuzz: 'replay of the fuzzing corpora'
}

/** Packages and binary. Without the binary there is nothing to test; without packages, no types. */
function setUp () {
  try {
    ensureModules()
  } catch (error) {
    report(error)
  }
  try {
    ensureBinary()
    return true
  } catch (error) {
    if (!(error instanceof SetupError)) throw error
    report(error)
    return false
  }
}

function chosenParts () {
  let only
  try {
    only = parseArgs({ options: { only: { type: 'string' } } }).values.only
  } catch (error) {
    console.error(error.message)
    process.exit(1)
  }
  const names = only ? only.split(',') : Object.keys(PARTS)
  const unknown = names.find((name) => !PARTS[name])
  if (!unknown) return names
  console.error(`There is no part "${unknown}"; there are ${Object.keys(PARTS).join(', ')}.`)
  process.exit(1)
}

/** A part that breaks is a failure like any other; the closing line still comes. */
async function attempt (part) {
  try {
    return await part()
  } catch (error) {
    console.log(error)
    return { passed: 0, failed: 1 }
  }
}

async function main () {
  const names = chosenParts()
  if (!setUp()) {
    console.log('0 passed, 1 failed')
    return 1
  }
  const results = []
  for (const name of names) {
    console.log(`\n## ${name}: ${TITLES[name]}`)
    const from = Date.now()
    const result = await attempt(PARTS[name])
    results.push(result)
    const seconds = Math.round((Date.now() - from) / 1000)
    console.log(`-- ${name}: ${result.failed === 0 ? 'passed' : 'FAILED'} (${result.passed} and ${result.failed}, ${seconds} s)`)
  }
  const { passed, failed } = add(...results)
  console.log(`\n${passed} passed, ${failed} failed`)
  return failed === 0 ? 0 : 1
}

process.exitCode = await main()
