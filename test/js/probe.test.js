'use strict'
// How the native module is found, and what is said when it cannot be used. Each case is a process of
// its own, with binaries made for it.

const { test } = require('node:test')
const assert = require('node:assert')
const { INTERFACE_VERSION } = require('../../lib/interface')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { spawnSync } = require('node:child_process')

const LIB = path.join(__dirname, '..', '..', 'lib')
const isLinux = process.platform === 'linux'

// A copy of lib/ without a binary beside it, so that what is built here does not matter.
function copyOf (t) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'millrace-probe-'))
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }))
  fs.cpSync(LIB, path.join(folder, 'lib'), { recursive: true })
  fs.copyFileSync(path.join(LIB, '..', 'package.json'), path.join(folder, 'package.json'))
  return folder
}

function put (folder, bytes, name = 'given.node') {
  const file = path.join(folder, name)
  fs.mkdirSync(path.dirname(file), { recursive: true })
  fs.writeFileSync(file, bytes)
  return file
}

function run (folder, script, env = {}) {
  const clean = { ...process.env, MILLRACE_ENGINE: '', MILLRACE_BINARY: '', NODE_OPTIONS: '', ...env }
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, ['-e', `const m = require('./lib'); ${script}`], { cwd: folder, env: clean, encoding: 'utf8' })
  assert.strictEqual(signal, null, stderr)
  assert.strictEqual(status, 0, stderr)
  return { stdout, stderr }
}

function probeIn (folder, env) {
  const { stdout, stderr } = run(folder, 'console.log(JSON.stringify(m.probe()))', env)
  assert.strictEqual(stderr, '')
  return JSON.parse(stdout)
}

const START = "m.serve({ port: 0, host: '127.0.0.1', engine: process.argv[1] }).then((s) => { console.log(s.engine); return s.close({ deadline: 0 }) }, (err) => console.log(err.code, err.message))"

// What probe() says about one file.
function errorFor (t, bytes) {
  const folder = copyOf(t)
  const file = put(folder, bytes)
  const found = probeIn(folder, { MILLRACE_BINARY: file })
  assert.strictEqual(found.ok, false)
  assert.strictEqual(found.engine, 'node')
  assert.strictEqual(found.tried[0].path, file)
  assert.ok(found.reason.includes(found.tried[0].error))
  return found.tried[0].error
}

test('no binary: every place that was tried is told', (t) => {
  const folder = fs.realpathSync(copyOf(t))
  const found = probeIn(folder)
  assert.deepStrictEqual([found.ok, found.engine, found.binary, found.simd], [false, 'node', null, null])
  assert.strictEqual(found.tried.length, 2)
  assert.ok(found.tried[0].path.startsWith(path.join(folder, 'build')))
  assert.ok(found.tried[1].path.includes(`${process.platform}-${process.arch}`))
  assert.ok(found.tried[1].path.includes(`abi${process.versions.modules}`))
  for (const { error } of found.tried) assert.match(error, /no such file/)
  assert.deepStrictEqual(found.versions.node, process.versions.node)
})

test('probe() has every field, whichever engine runs', () => {
  const found = require('../..').probe()
  assert.deepStrictEqual(Object.keys(found), [
    'ok', 'engine', 'version', 'abi', 'platform', 'arch', 'libc', 'binary', 'tried', 'reason', 'transport', 'transportReason', 'threads', 'balance', 'simd', 'versions', 'capabilities'
  ])
  assert.deepStrictEqual(Object.keys(found.versions), ['node', 'uv', 'openssl', 'zlib', 'llhttp', 'napi'])
  assert.strictEqual(found.ok, found.engine === 'native')
  assert.strictEqual(found.reason === null, found.ok)
  if (isLinux) assert.ok(['glibc', 'musl'].includes(found.libc))
  if (found.ok) assert.ok(found.tried.every((each) => typeof each.error === 'string') && fs.existsSync(found.binary))
})

test('a missing file', (t) => {
  const folder = copyOf(t)
  const found = probeIn(folder, { MILLRACE_BINARY: path.join(folder, 'nowhere.node') })
  assert.match(found.tried[0].error, /no such file/)
})

test('a folder', (t) => {
  const folder = copyOf(t)
  assert.match(probeIn(folder, { MILLRACE_BINARY: folder }).tried[0].error, /not a file/)
})

test('only binaries for other ABIs are there', (t) => {
  const folder = copyOf(t)
  const musl = probeIn(folder).libc === 'musl' ? '-musl' : ''
  put(folder, '', `prebuilds/${process.platform}-${process.arch}${musl}/millrace-abi9999.node`)
  assert.match(probeIn(folder).tried[1].error, new RegExp(`ABI ${process.versions.modules}.*ABI 9999`))
})

test('an empty file and a text', { skip: !isLinux && 'ELF only' }, (t) => {
  assert.match(errorFor(t, ''), /cut short/)
  assert.match(errorFor(t, '#!/bin/sh\n'.repeat(50)), /not an ELF file/)
})

// The smallest ELF file that the check reads: a header, program headers, what they name.
function elf ({ machine = { x64: 62, arm64: 183 }[process.arch] ?? 62, needed = [], declaredSize } = {}) {
  const strings = `\0${needed.join('\0')}\0`
  const dynamic = Buffer.alloc((needed.length + 2) * 16)
  let at = 1
  needed.forEach((name, i) => {
    dynamic.writeBigUInt64LE(1n, i * 16)
    dynamic.writeBigUInt64LE(BigInt(at), i * 16 + 8)
    at += name.length + 1
  })
  const head = Buffer.alloc(64)
  head.write('\x7fELF', 'latin1')
  head.set([2, 1, 1], 4)
  head.writeUInt16LE(3, 16)
  head.writeUInt16LE(machine, 18)
  head.writeUInt32LE(1, 20)
  head.writeBigUInt64LE(64n, 32)
  head.writeUInt16LE(64, 52)
  head.writeUInt16LE(56, 54)
  head.writeUInt16LE(2, 56)
  head.writeUInt16LE(64, 58)
  const start = 64 + 2 * 56
  const size = start + dynamic.length + strings.length
  dynamic.writeBigUInt64LE(5n, needed.length * 16)
  dynamic.writeBigUInt64LE(BigInt(start + dynamic.length), needed.length * 16 + 8)
  const segment = (type, offset, length) => {
    const bytes = Buffer.alloc(56)
    bytes.writeUInt32LE(type, 0)
    for (const [field, value] of [[8, offset], [16, offset], [32, length], [40, length]]) bytes.writeBigUInt64LE(BigInt(value), field)
    return bytes
  }
  return Buffer.concat([head, segment(1, 0, declaredSize ?? size), segment(2, start, dynamic.length), dynamic, Buffer.from(strings, 'latin1')])
}

test('a file that was cut short is never given to the loader', { skip: !isLinux && 'ELF only' }, (t) => {
  assert.match(errorFor(t, elf({ declaredSize: 100000 })), /cut short/)
  assert.match(errorFor(t, elf().subarray(0, 40)), /cut short/)
  assert.match(errorFor(t, elf().subarray(0, 100)), /cut short/)
  assert.match(errorFor(t, fs.readFileSync(process.execPath).subarray(0, 100000)), /cut short/)
})

test('a real binary cut at many places is refused each time, without a crash', { skip: !isLinux && 'ELF only' }, (t) => {
  const built = path.join(LIB, '..', 'build', 'Release', 'millrace.node')
  if (!fs.existsSync(built)) return t.skip('nothing is built')
  const bytes = fs.readFileSync(built)
  for (const part of [0.1, 0.35, 0.5, 0.8, 0.99]) {
    assert.match(errorFor(t, bytes.subarray(0, Math.floor(bytes.length * part))), /cut short/)
  }
})

test('a binary of another processor', { skip: !isLinux && 'ELF only' }, (t) => {
  const [machine, name] = process.arch === 'x64' ? [183, 'arm64'] : [62, 'x64']
  assert.match(errorFor(t, elf({ machine })), new RegExp(`another processor \\(${name}\\)`))
})

test('a binary for another libc', { skip: !isLinux && 'ELF only' }, (t) => {
  const { libc } = require('../..').probe()
  const other = libc === 'musl' ? ['libc.so.6', 'glibc'] : ['libc.musl-x86_64.so.1', 'musl']
  assert.match(errorFor(t, elf({ needed: ['libm.so.6', other[0]] })), new RegExp(`built for ${other[1]}, this Node runs on ${libc}`))
})

test('a whole file that is no module: what the loader said', { skip: !isLinux && 'ELF only' }, (t) => {
  const found = probeIn(copyOf(t), { MILLRACE_BINARY: process.execPath })
  assert.strictEqual(found.tried[0].path, process.execPath)
  assert.match(found.tried[0].error, /executable/)
})

// Modules as the loader would give them, without compiling any: a preloaded script stands in for it.
function withModule (t, source) {
  const folder = copyOf(t)
  const file = put(folder, isLinux ? elf() : 'x')
  const preload = put(folder, `process.dlopen = (module) => { ${source} }`, 'preload.js')
  return { folder, env: { MILLRACE_BINARY: file, NODE_OPTIONS: `--require ${preload}` } }
}

test('a module of another interface number is refused', (t) => {
  const { folder, env } = withModule(t, 'module.exports = { interfaceVersion: 999 }')
  assert.match(probeIn(folder, env).tried[0].error, /interface 999.*needs 2/)
})

test('a module of somebody else is refused', (t) => {
  const { folder, env } = withModule(t, 'module.exports = { hello () {} }')
  assert.match(probeIn(folder, env).tried[0].error, /interface undefined/)
})

test('a module of another ABI is explained', (t) => {
  const { folder, env } = withModule(t, "throw new Error('was compiled against NODE_MODULE_VERSION 1')")
  assert.match(probeIn(folder, env).tried[0].error, /another ABI.*NODE_MODULE_VERSION 1/)
  const numbered = withModule(t, `module.exports = { interfaceVersion: ${INTERFACE_VERSION}, abi: '1' }`)
  assert.match(probeIn(numbered.folder, numbered.env).tried[0].error, /ABI 1, this Node has/)
})

test('a module that needs a newer glibc is explained', (t) => {
  const { folder, env } = withModule(t, "throw new Error('libc.so.6: version `GLIBC_9.99\\' not found')")
  assert.match(probeIn(folder, env).tried[0].error, /newer glibc/)
})

test('a good module is used, and its info is shown', (t) => {
  const { folder, env } = withModule(t, `module.exports = { interfaceVersion: ${INTERFACE_VERSION}, info: () => ({ transport: 'epoll', transportReason: 'it is there', simd: 'avx2' }) }`)
  const found = probeIn(folder, env)
  assert.deepStrictEqual([found.ok, found.engine, found.transport, found.transportReason, found.simd, found.reason], [true, 'native', 'epoll', 'it is there', 'avx2', null])
  assert.strictEqual(found.binary, env.MILLRACE_BINARY)
  const asked = probeIn(folder, { ...env, MILLRACE_ENGINE: 'node' })
  assert.deepStrictEqual([asked.ok, asked.engine], [false, 'node'])
  assert.match(asked.reason, /MILLRACE_ENGINE=node/)
})

test('an info() that throws does not make probe() throw', (t) => {
  const { folder, env } = withModule(t, `module.exports = { interfaceVersion: ${INTERFACE_VERSION}, info () { throw new Error('x') } }`)
  const found = probeIn(folder, env)
  assert.deepStrictEqual([found.ok, found.transport], [true, null])
})

test('without a binary, serve() runs on node:http with one warning that says why', (t) => {
  const folder = copyOf(t)
  const { stdout, stderr } = run(folder, `${START.replace('process.argv[1]', 'undefined')}.then(() => ${START.replace('process.argv[1]', 'undefined')})`)
  assert.strictEqual(stdout, 'node\nnode\n')
  assert.strictEqual(stderr.match(/MillraceWarning/g).length, 1)
  assert.match(stderr, /no such file/)
  assert.match(stderr, /Build it with `npm run build`;/)
})

test('a program is told to rebuild, a checkout to build', (t) => {
  const folder = copyOf(t)
  const inside = path.join(folder, 'node_modules', 'millrace')
  fs.mkdirSync(inside, { recursive: true })
  for (const name of ['lib', 'package.json']) fs.cpSync(path.join(folder, name), path.join(inside, name), { recursive: true })
  const native = START.replace('process.argv[1]', "'native'")
  assert.match(run(inside, START.replace('process.argv[1]', 'undefined')).stderr, /Build it with `npm rebuild millrace`;/)
  assert.match(run(inside, native).stdout, /Build it with `npm rebuild millrace`, or/)
  assert.match(run(folder, native).stdout, /Build it with `npm run build`, or/)
})

// A binary that is named and useless, beside one that loads and can listen nowhere.
function withUselessBinary (t) {
  const { folder, env } = withModule(t, "module.exports = { interfaceVersion: 2, info: () => ({}), create () { throw new Error('the built one') } }")
  put(folder, isLinux ? elf() : 'x', path.join('build', 'Release', 'millrace.node'))
  return { folder, env: { ...env, MILLRACE_BINARY: path.join(folder, 'nowhere.node') } }
}

const TWICE = "const go = () => m.serve({ port: 0, host: '127.0.0.1' }).catch((err) => console.log(err.code, err.message)); go().then(go)"

test('a MILLRACE_BINARY that is of no use is told of when another one takes its place', (t) => {
  const { folder, env } = withUselessBinary(t)
  const { stdout, stderr } = run(folder, TWICE, env)
  assert.strictEqual(stdout, 'undefined the built one\nundefined the built one\n')
  assert.strictEqual(stderr.match(/MillraceWarning/g)?.length, 1)
  assert.match(stderr, /\[MILLRACE_BINARY\] MillraceWarning: MILLRACE_BINARY cannot be used: there is no such file \(.*nowhere\.node\)\. .*build.Release.millrace\.node loads in its place\./)
})

test('with the native engine insisted on, such a MILLRACE_BINARY is an error', (t) => {
  const { folder, env } = withUselessBinary(t)
  const insisting = { ...env, MILLRACE_ENGINE: 'native' }
  for (const result of [run(folder, TWICE, insisting), run(folder, START.replace('process.argv[1]', "'native'"), env)]) {
    assert.match(result.stdout, /^ERR_MILLRACE_NO_NATIVE MILLRACE_BINARY cannot be used: there is no such file .*nowhere/)
    assert.strictEqual(result.stderr, '')
  }
  const found = probeIn(folder, insisting)
  assert.deepStrictEqual([found.ok, found.engine], [false, 'node'])
  assert.match(found.reason, /^MILLRACE_BINARY cannot be used/)
  assert.strictEqual(probeIn(folder, env).ok, true)
})

test('nothing is said of a MILLRACE_BINARY that loads, nor on node:http', (t) => {
  const { folder, env } = withUselessBinary(t)
  assert.strictEqual(run(folder, START, { ...env, MILLRACE_ENGINE: 'node' }).stderr, '')
  const good = { ...env, MILLRACE_BINARY: put(folder, isLinux ? elf() : 'x') }
  assert.strictEqual(run(folder, TWICE, good).stderr, '')
})

test('reasons are not said twice', (t) => {
  const found = probeIn(copyOf(t))
  assert.deepStrictEqual([found.transport, found.transportReason], ['node', 'node:http has sockets of its own.'])
})

test('asked for, node:http runs without a warning', (t) => {
  const folder = copyOf(t)
  assert.deepStrictEqual(run(folder, START, { MILLRACE_ENGINE: 'node' }), { stdout: 'node\n', stderr: '' })
  assert.deepStrictEqual(run(folder, START.replace('process.argv[1]', "'node'")), { stdout: 'node\n', stderr: '' })
})

test('asked for the native engine, serve() refuses with the reasons', (t) => {
  const folder = copyOf(t)
  for (const result of [run(folder, START, { MILLRACE_ENGINE: 'native' }), run(folder, START.replace('process.argv[1]', "'native'"))]) {
    assert.match(result.stdout, /^ERR_MILLRACE_NO_NATIVE .*build.*no such file/)
    assert.strictEqual(result.stderr, '')
  }
})

test('an unknown MILLRACE_ENGINE is a reason, not an exception, for probe()', (t) => {
  const found = probeIn(copyOf(t), { MILLRACE_ENGINE: 'fast' })
  assert.strictEqual(found.ok, false)
  assert.strictEqual(found.reason, "MILLRACE_ENGINE is 'native' or 'node', not 'fast'. Correct the environment variable, or unset it.")
})
