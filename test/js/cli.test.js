'use strict'
// The command, as a process of its own: what it serves, what it says, and the code it ends with.

const { test } = require('node:test')
const assert = require('node:assert')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { once } = require('node:events')
const { spawn, spawnSync } = require('node:child_process')
const { setTimeout: pause } = require('node:timers/promises')
const { probe, version } = require('../..')

const CLI = path.join(__dirname, '..', '..', 'lib', 'cli.js')
const LIB = path.join(__dirname, '..', '..', 'lib', 'index.js')
const isNative = probe().ok
const WAIT_MS = 20000 // for something that has to come; far more than it takes

function folder (t, files) {
  const dir = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'millrace-cli-')))
  t.after(() => fs.rmSync(dir, { recursive: true, force: true }))
  for (const [name, text] of Object.entries(files)) fs.writeFileSync(path.join(dir, name), text)
  return dir
}

// A command that ends by itself.
function runs (...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [CLI, ...args], { encoding: 'utf8', timeout: WAIT_MS, killSignal: 'SIGKILL' })
  return { code: status, stdout, stderr }
}

async function until (what, check) {
  const end = Date.now() + WAIT_MS
  while (Date.now() < end) {
    const found = await check()
    if (found) return found
    await pause(20)
  }
  throw new Error(`Waited in vain: ${what}`)
}

// One that serves: { child, url, out(), code }.
async function serves (t, args, env = {}) {
  const child = spawn(process.execPath, [CLI, ...args], { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = once(child, 'exit').then(([code]) => code)
  t.after(async () => { child.kill('SIGKILL'); await ended })
  let text = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (chunk) => { text += chunk })
  const url = await until('the address', () => {
    if (child.exitCode !== null) throw new Error(`It ended with ${child.exitCode}: ${text}`)
    return /^millrace: (http:\S+) /m.exec(text)?.[1]
  })
  return { child, ended, url, out: () => text }
}

// By a connection of its own each time.
async function get (url, target = '/') {
  const response = await fetch(new URL(target, url), { headers: { connection: 'close' } })
  return response.text()
}

const EXPORTS = (text) => `module.exports = { host: '127.0.0.1', port: 0, routes: { '/': () => ${text}, '/argv': () => process.argv.slice(1) } }`
const AT_ANY_PORT = ['--port', '0', '--host', '127.0.0.1']

test('--help and --version', () => {
  const help = runs('--help')
  assert.strictEqual(help.code, 0)
  for (const name of ['port', 'host', 'threads', 'balance', 'metrics', 'health', 'access-log', 'watch']) assert.ok(help.stdout.includes(`--${name} `), name)
  assert.deepStrictEqual(runs('-v'), { code: 0, stdout: `${version}\n`, stderr: '' })
})

test('wrong usage ends with 2 and one sentence', (t) => {
  const app = path.join(folder(t, { 'app.js': EXPORTS("'hi'") }), 'app.js')
  const lines = [
    [], ['none.mjs'], [app, 'two.js'], [app, '--prot', '1'], [app, '--port'], [app, '--port', 'x'], [app, '--port', '65536'],
    [app, '--threads', '0'], [app, '--threads', 'many'], [app, '--balance', 'fair'], [app, '--metrics', 'm'], [app, '--host='],
    [app, '--metrics', '/a', '--health', '/a'], [app, '--json'], ['probe', 'more'], ['probe', '--port', '1'], ['files', '.']
  ]
  for (const args of lines) {
    const { code, stdout, stderr } = runs(...args)
    assert.strictEqual(code, 2, `${args}: ${stderr}`)
    assert.strictEqual(stdout, '', `${args}`)
    assert.match(stderr, /^millrace: [^\n]+\n$/, `${args}`)
  }
})

test('probe, readable and as JSON', () => {
  const { code, stdout } = runs('probe')
  assert.strictEqual(code, 0)
  assert.match(stdout, new RegExp(`^engine +${isNative ? 'native' : 'node:http'}`, 'm'))
  assert.strictEqual(JSON.parse(runs('probe', '--json').stdout).version, version)
})

test('serves what a program exports, with its arguments, and ends with 0', async (t) => {
  const dir = folder(t, { 'app.mjs': `export default { port: 1, host: '127.0.0.1', routes: { '/argv': () => process.argv.slice(1) } }` })
  const app = path.join(dir, 'app.mjs')
  const { child, ended, url } = await serves(t, [app, ...AT_ANY_PORT, '--', '--own', 'x'])
  assert.deepStrictEqual(JSON.parse(await get(url, '/argv')), [app, '--own', 'x'])
  child.kill('SIGTERM')
  assert.strictEqual(await ended, 0)
})

test('a program that calls serve() itself; the command overrides its first server only', async (t) => {
  const text = `const { serve } = require(${JSON.stringify(LIB)})
    async function main () {
      const first = await serve({ port: 1, host: '127.0.0.1', routes: { '/': () => second.url } })
      const second = await serve({ port: 0, host: '127.0.0.1', routes: { '/': 'second' } })
    }
    main()`
  const { child, ended, url } = await serves(t, [path.join(folder(t, { 'app.js': text }), 'app'), ...AT_ANY_PORT])
  const second = await until('the second server', () => get(url).then((body) => body.startsWith('http:') && body))
  assert.notStrictEqual(second, url)
  assert.strictEqual(await get(second), 'second')
  child.kill('SIGINT')
  assert.strictEqual(await ended, 0)
})

test('a program that fails ends it with 1 and its own error', (t) => {
  const dir = folder(t, { 'throws.mjs': "throw new Error('no database')", 'number.mjs': 'export default 7', 'option.mjs': 'export default { prot: 1, routes: {} }' })
  for (const [name, said] of [['throws', /no database/], ['number', /not 7/], ['option', /prot/]]) {
    const { code, stderr } = runs(path.join(dir, `${name}.mjs`), ...AT_ANY_PORT)
    assert.strictEqual(code, 1, stderr)
    assert.match(stderr, said)
  }
})

test('without the native engine: one thread, and said so', async (t) => {
  const app = path.join(folder(t, { 'app.js': EXPORTS("'hi'") }), 'app.js')
  const { child, ended, url, out } = await serves(t, [app, '--threads', '2', '--watch'], { MILLRACE_ENGINE: 'node' })
  assert.strictEqual(await get(url), 'hi')
  await until('the warning', () => /there is one thread/.test(out()) && /--watch needs/.test(out()))
  child.kill('SIGHUP')
  assert.strictEqual(await get(url), 'hi')
  child.kill('SIGTERM')
  assert.strictEqual(await ended, 0)
})

const native = { skip: isNative ? false : 'needs the native engine' }

test('threads, metrics, health and the access log, which SIGHUP opens anew', native, async (t) => {
  const dir = folder(t, { 'app.js': EXPORTS("'hi'") })
  const log = path.join(dir, 'access')
  const { child, ended, url, out } = await serves(t, [path.join(dir, 'app.js'), '--threads=2', '--balance=rotate', '--metrics=/m', '--health=/h', '--access-log', log])
  assert.match(out(), /\(2 threads, rotate\)/)
  assert.match(await get(url, '/m'), /^# TYPE /m)
  assert.strictEqual(JSON.parse(await get(url, '/h')).threads.length, 2)
  const lines = (file) => fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\n').length - 1 : 0
  await until('the lines', () => lines(log) >= 2)
  fs.renameSync(log, `${log}.1`)
  child.kill('SIGHUP')
  await until('the new file', () => get(url).then(() => lines(log) > 0))
  child.kill('SIGTERM')
  assert.strictEqual(await ended, 0)
})

test('SIGUSR2 reloads; a program that has become wrong leaves the old one running', native, async (t) => {
  const dir = folder(t, { 'app.js': EXPORTS("'one'") })
  const app = path.join(dir, 'app.js')
  const { child, url, out } = await serves(t, [app])
  fs.writeFileSync(app, EXPORTS("'two'"))
  assert.strictEqual(await get(url), 'one') // nobody watches
  child.kill('SIGUSR2')
  await until('the new program', () => get(url).then((body) => body === 'two'))
  fs.writeFileSync(app, 'syntax error')
  child.kill('SIGUSR2')
  await until('the complaint', () => /not reloaded/.test(out()))
  assert.strictEqual(await get(url), 'two')
})

test('--watch reloads for a change, also below, and not for node_modules', native, async (t) => {
  const dir = folder(t, { 'app.js': "module.exports = { host: '127.0.0.1', port: 0, routes: { '/': () => require('./word') } }", 'word.js': "module.exports = 'one'" })
  fs.mkdirSync(path.join(dir, 'node_modules'))
  const { url, out } = await serves(t, [path.join(dir, 'app.js'), '--watch'])
  const reloads = () => out().split('reloaded\n').length - 1
  fs.writeFileSync(path.join(dir, 'node_modules', 'x.js'), '')
  fs.writeFileSync(path.join(dir, 'word.js'), "module.exports = 'two'")
  await until('the new word', () => get(url).then((body) => body === 'two'))
  // Writes that are seen apart are reloads of their own: what counts is that there is another.
  const another = async (what, change) => {
    const before = reloads()
    change()
    await until(what, () => reloads() > before)
  }
  await until('the end of that', () => reloads() >= 1)
  await another('the reload for a folder', () => fs.mkdirSync(path.join(dir, 'sub')))
  await another('the reload for what is in it', () => fs.writeFileSync(path.join(dir, 'sub', 'y.js'), ''))
  await another('the reload for what changed beside node_modules', () => {
    fs.writeFileSync(path.join(dir, 'node_modules', 'z.js'), '')
    fs.writeFileSync(path.join(dir, 'sub', 'z.js'), '')
  })
})
