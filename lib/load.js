'use strict'
// Finds and loads the native module, once per thread. Never throws, never logs: what was tried and
// why it failed is kept for probe(), for the warning and for the error.

const fs = require('node:fs')
const path = require('node:path')
const { threadsOfMachine } = require('./cpus')
const { balanceOf } = require('./balance')
const { fault, show } = require('./errors')
const { INTERFACE_VERSION } = require('./interface')
const { elfFault, ownLibc } = require('./elf')
const { version } = require('../package.json')

const ROOT = path.join(__dirname, '..')
const ABI = process.versions.modules
const UNSET = 'Correct the environment variable, or unset it.'

function prebuildFolder () {
  const libc = ownLibc() === 'musl' ? '-musl' : ''
  return path.join(ROOT, 'prebuilds', `${process.platform}-${process.arch}${libc}`)
}

function candidates (asked) {
  const found = [
    path.join(ROOT, 'build', 'Release', 'millrace.node'),
    path.join(prebuildFolder(), `millrace-abi${ABI}.node`)
  ]
  return asked ? [path.resolve(asked), ...found] : found
}

// The ABIs that binaries beside a missing one are for.
function otherAbis (file) {
  try {
    return fs.readdirSync(path.dirname(file)).map((name) => /^millrace-abi(\d+)\.node$/.exec(name)?.[1]).filter(Boolean)
  } catch {
    return []
  }
}

function missing (file) {
  const abis = /millrace-abi\d+\.node$/.test(file) ? otherAbis(file) : []
  if (abis.length === 0) return 'there is no such file'
  return `there is no such file; this Node has ABI ${ABI}, the binaries there are for ABI ${abis.join(', ')}`
}

// What the dynamic linker said, with what it means.
function explain (message) {
  if (/NODE_MODULE_VERSION/.test(message)) return `it is built for another ABI than this Node's (${ABI}): ${message}`
  if (/GLIBC_[\d.]+.*not found/.test(message)) return `it is built for a newer glibc than this system's: ${message}`
  if (/libc\.musl|ld-musl/.test(message)) return `it is built for musl: ${message}`
  return message
}

// Why a loaded module is not one that this version can talk to, or null.
function strange (binding) {
  if (binding === null || typeof binding !== 'object') return 'it is not a module of this package'
  const { interfaceVersion, abi } = binding
  if (interfaceVersion !== INTERFACE_VERSION) {
    return `it has interface ${show(interfaceVersion)}, this version of the package needs ${INTERFACE_VERSION}; build it again`
  }
  if (abi !== undefined && String(abi) !== ABI) return `it is built for ABI ${abi}, this Node has ${ABI}; build it again`
  return null
}

// { binding } or { error }.
function attempt (file) {
  try {
    if (!fs.statSync(file).isFile()) return { error: 'it is not a file' }
  } catch (err) {
    return { error: err.code === 'ENOENT' ? missing(file) : err.message }
  }
  const broken = elfFault(file)
  if (broken !== null) return { error: broken }
  const module = { exports: {} }
  try {
    process.dlopen(module, file)
  } catch (err) {
    return { error: explain(String(err?.message ?? err)) }
  }
  const why = strange(module.exports)
  return why === null ? { binding: module.exports } : { error: why }
}

function search () {
  const tried = []
  const asked = process.env.MILLRACE_BINARY
  for (const file of candidates(asked)) {
    const { binding, error } = attempt(file)
    if (binding !== undefined) return { binding, path: file, asked, tried }
    tried.push({ path: file, error })
  }
  return { binding: null, path: null, asked, tried }
}

let loaded = null

// { binding, path, asked, tried }; binding is null when no candidate can be used, `asked` is what
// MILLRACE_BINARY said.
function loadNative () {
  if (loaded === null) {
    try {
      loaded = search()
    } catch (err) {
      loaded = { binding: null, path: null, asked: undefined, tried: [{ path: ROOT, error: String(err) }] }
    }
  }
  return loaded
}

function reasonOf ({ tried }) {
  return `Tried: ${tried.map(({ path, error }) => `${path}: ${error}`).join('; ')}.`
}

// Why the file that MILLRACE_BINARY names is not the one in use; null when it is, or when none is.
function passedOver ({ binding, path, asked, tried }) {
  if (binding === null || !asked || tried.length === 0) return null
  return `MILLRACE_BINARY cannot be used: ${tried[0].error} (${tried[0].path}). ${path} loads in its place.`
}

// 'native', 'node', or undefined for whichever is there. The option is nearer than the environment.
function wantedEngine (option) {
  if (option !== undefined) return option
  const wanted = process.env.MILLRACE_ENGINE
  if (wanted === undefined || wanted === '') return undefined
  if (wanted === 'native' || wanted === 'node') return wanted
  throw fault('ERR_MILLRACE_OPTION', `MILLRACE_ENGINE is 'native' or 'node', not ${show(wanted)}.`, undefined, UNSET)
}

function infoOf (binding) {
  try {
    return binding.info()
  } catch {
    return {}
  }
}

// { transport, transportReason } by the environment; a binding that lists none leaves no choice.
// Throws for one that this system does not have.
function chooseTransport (binding) {
  const { transport = null, transportReason = null, transports } = infoOf(binding)
  const wanted = process.env.MILLRACE_TRANSPORT
  if (wanted === undefined || wanted === '' || transports === undefined) return { transport, transportReason }
  const names = transports.split(' ')
  if (names.includes(wanted)) return { transport: wanted, transportReason: `MILLRACE_TRANSPORT=${wanted} asks for it.` }
  const list = names.map((name) => `'${name}'`).join(' or ')
  throw fault('ERR_MILLRACE_OPTION', `MILLRACE_TRANSPORT is ${list} on ${process.platform}, not ${show(wanted)}.`, undefined, UNSET)
}

// What serve() would do: { isNative, wanted, chosen } or { isNative: false, error }.
function choice (native) {
  try {
    const wanted = wantedEngine()
    const bad = wanted === 'native' ? passedOver(native) : null
    if (bad !== null) return { isNative: false, error: bad }
    const isNative = native.binding !== null && wanted !== 'node'
    return { isNative, wanted, chosen: isNative ? chooseTransport(native.binding) : null }
  } catch (err) {
    return { isNative: false, error: err.message }
  }
}

// { ok, reason, version } of the host's own parser. node:http is never without it.
function llhttpOf (isNative, info) {
  const reason = isNative ? info.llhttp ?? 'The native engine does not tell.' : ''
  return { ok: reason === '', reason: reason === '' ? null : reason, version: process.versions.llhttp ?? null }
}

function describe ({ isNative, chosen }, native, reason) {
  const info = isNative ? infoOf(native.binding) : {}
  const { node, uv, openssl, zlib, llhttp, napi } = process.versions
  return {
    ok: isNative,
    engine: isNative ? 'native' : 'node',
    version,
    abi: ABI,
    platform: process.platform,
    arch: process.arch,
    libc: ownLibc(),
    binary: native.path,
    tried: native.tried,
    reason,
    transport: isNative ? chosen.transport : 'node',
    transportReason: isNative ? chosen.transportReason : 'node:http has sockets of its own.',
    threads: isNative ? threadsOfMachine() : 1, // what threads: 'auto' gives
    balance: isNative ? balanceOf('auto', null, null) : { mode: 'none', reason: 'The fallback on node:http serves in one thread.' },
    simd: info.simd ?? null,
    versions: { node, uv, openssl, zlib, llhttp, napi },
    capabilities: {
      llhttp: llhttpOf(isNative, info), // whether serve() takes parser: 'llhttp'
      repliesWithoutJs: isNative, // fixed replies and templates are answered in C
      anyMethod: isNative, // methods that Node does not know
      exactLimits: isNative, // headerBytes to the byte
      sendTimeout: isNative // timeouts.send
    }
  }
}

// Never throws, never logs.
function probe () {
  const native = loadNative()
  const { isNative, wanted, chosen, error } = choice(native)
  let reason = null
  if (error !== undefined) reason = error
  else if (wanted === 'node') reason = 'MILLRACE_ENGINE=node asks for node:http.'
  else if (!isNative) reason = reasonOf(native)
  return describe({ isNative, chosen }, native, reason)
}

exports.loadNative = loadNative
exports.wantedEngine = wantedEngine
exports.reasonOf = reasonOf
exports.passedOver = passedOver
exports.chooseTransport = chooseTransport
exports.probe = probe
