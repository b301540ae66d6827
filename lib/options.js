'use strict'
// The options of serve(), checked against one table of defaults and bounds, and made plain.

const { fault, rangeFault, show } = require('./errors')
const { checkKeys } = require('./keys')
const { PLACES, listenersOf, rangesOf } = require('./listen')
const { trustOf } = require('./forwarded')
const { threadsOfMachine, THREADS_MAX } = require('./cpus')
const { balanceOf } = require('./balance')

const INT_MAX = 2147483647 // also the longest timer, in ms

// name: [default, least, most, unit]
const LIMITS = {
  headerBytes: [16384, 1024, 65535, 'bytes'],
  headerCount: [100, 1, 1000, 'fields'],
  targetBytes: [8192, 16, 65535, 'bytes'],
  bodyBytes: [16777216, 0, INT_MAX, 'bytes'],
  bodyBytesPerSecond: [1024, 0, INT_MAX, 'bytes per second, 0 for any'],
  connections: [0, 0, INT_MAX, 'connections, 0 for any number'],
  requestsPerConnection: [0, 0, INT_MAX, 'requests, 0 for any number'],
  outgoingBytes: [16777216, 4096, 536870911, 'bytes']
}

const TIMEOUTS = {
  header: [10000, 0, INT_MAX, 'ms, 0 for none'],
  body: [300000, 0, INT_MAX, 'ms, 0 for none'],
  keepAlive: [75000, 0, INT_MAX, 'ms, 0 for none'],
  send: [300000, 0, INT_MAX, 'ms, 0 for none'],
  linger: [2000, 0, 60000, 'ms']
}

const DEADLINE = [10000, 0, INT_MAX, 'ms']
// name: [default, least, most, unit], of a fleet
const FLEET = {
  stuckAfter: [1000, 50, INT_MAX, 'ms'],
  launchTimeout: [30000, 1, INT_MAX, 'ms'],
  restarts: [5, 0, INT_MAX, 'failures in a row'],
  deadline: DEADLINE
}
const FLEET_KEYS = [
  ...Object.keys(FLEET), 'balance', 'select', 'admit', 'signals', 'pin', 'keepCpu', 'admin', 'argv', 'env', 'execArgv', 'workerData', 'resourceLimits', 'overrides'
]
const GRACE = [250, 0, INT_MAX, 'ms']
const KEYS = [
  ...PLACES, 'listen', 'proxyProtocol', 'trustProxy', 'threads', 'fleet', 'engine', 'parser', 'routes', 'handler', 'error', 'limits', 'timeouts',
  'metrics', 'health', 'ready', 'overload', 'accessLog'
]

// What other servers call these.
const ALIASES = { fetch: 'handler', onError: 'error', workers: 'threads' }
const OF_TLS = ['tls', 'https', 'ssl', 'cert', 'key', 'pfx']

function refuse (detail) {
  return fault('ERR_MILLRACE_OPTION', detail)
}

function refuseUnsupported (detail, hint) {
  return fault('ERR_MILLRACE_UNSUPPORTED', detail, undefined, hint)
}

// An integer by its row of the table; undefined means the default.
function integer (name, value, [initial, least, most, unit]) {
  if (value === undefined) return initial
  if (Number.isInteger(value) && value >= least && value <= most) return value
  throw rangeFault('ERR_MILLRACE_OPTION_RANGE', `${name} is an integer from ${least} to ${most} (${unit}), not ${show(value)}.`)
}

function integers (group, value, rows) {
  if (value === undefined) value = {}
  if (value === null || typeof value !== 'object') throw refuse(`${group} is an object, not ${show(value)}.`)
  checkKeys(value, Object.keys(rows), `option in ${group} named`, refuse)
  const result = {}
  for (const name of Object.keys(rows)) result[name] = integer(`${group}.${name}`, value[name], rows[name])
  return result
}

// The ranges of peers that speak the PROXY protocol.
function proxySourcesOf (value) {
  if (value === undefined || value === null) return []
  if (typeof value !== 'object' || Array.isArray(value)) throw refuse(`proxyProtocol is { from: [ranges] }, not ${show(value)}.`)
  checkKeys(value, ['from'], 'option in proxyProtocol named', refuse)
  return rangesOf('proxyProtocol.from', value.from)
}

function threadsOf (value) {
  if (value === undefined) return 1
  if (value === 'auto') return threadsOfMachine()
  if (Number.isInteger(value) && value >= 1 && value <= THREADS_MAX) return value
  throw rangeFault('ERR_MILLRACE_OPTION_RANGE', `threads is an integer from 1 to ${THREADS_MAX}, or 'auto', not ${show(value)}.`)
}

// ---- fleets ----

// That a connection stays on the CPU that it came in on.
function keepCpuOf (value, { mode }) {
  const isWanted = booleanOf('keepCpu', value, false)
  if (isWanted && mode !== 'reuseport') throw refuse(`keepCpu goes with balance: 'reuseport' only, not with ${show(mode)}.`)
  return isWanted
}

// The options of the supervisor's own server, or null.
function adminOf (value) {
  if (value === undefined || value === null) return null
  if (typeof value !== 'object') throw refuse(`admin is { port, host, metrics, health, ready }, not ${show(value)}.`)
  checkKeys(value, [...PLACES, 'metrics', 'health', 'ready'], 'option in admin named', refuse)
  return { host: '127.0.0.1', metrics: '/metrics', health: '/healthz', ready: '/readyz', ...value }
}

function booleanOf (name, value, initial) {
  if (value === undefined) return initial
  if (typeof value === 'boolean') return value
  throw refuse(`${name} is true or false, not ${show(value)}.`)
}

// The options of launch(), and of serve() under `fleet`.
function normaliseFleet (given = {}, threads = given?.threads ?? 'auto') {
  if (given === null || typeof given !== 'object' || Array.isArray(given)) throw refuse(`The options of a fleet are an object, not ${show(given)}.`)
  checkKeys(given, ['threads', ...FLEET_KEYS], 'option of a fleet named', refuse)
  const select = functionOf('select', given.select)
  const admit = functionOf('admit', given.admit)
  const balance = balanceOf(given.balance, select, admit)
  const { argv, env, execArgv, workerData, resourceLimits, overrides } = given
  const numbers = {}
  for (const name of Object.keys(FLEET)) numbers[name] = integer(name, given[name], FLEET[name])
  return {
    threads: threadsOf(threads),
    balance,
    select,
    admit,
    signals: booleanOf('signals', given.signals, true),
    pin: booleanOf('pin', given.pin, false),
    keepCpu: keepCpuOf(given.keepCpu, balance),
    admin: adminOf(given.admin),
    ...numbers,
    argv,
    env,
    execArgv,
    workerData,
    resourceLimits,
    overrides
  }
}

// ---- what a fleet shows, shares and sheds ----

function pathOf (name, value) {
  if (typeof value === 'string' && value.startsWith('/')) return value
  throw refuse(`${name} is a path that begins with '/', not ${show(value)}.`)
}

// { path: what } of the routes that the core answers about the fleet.
function liveOf (options) {
  const live = {}
  for (const name of ['metrics', 'health', 'ready']) {
    const value = options[name]
    if (value === undefined || value === null || value === false) continue
    const at = pathOf(name, value)
    if (live[at] !== undefined) throw refuse(`${name} and ${live[at]} are both at ${show(at)}.`)
    live[at] = name
  }
  return live
}

function rateOf (value) {
  if (value === undefined || value === null) return null
  if (typeof value !== 'object') throw refuse(`limits.rate is { perSecond, burst, key }, not ${show(value)}.`)
  checkKeys(value, ['perSecond', 'burst', 'key', 'entries'], 'option in limits.rate named', refuse)
  const { perSecond, burst = Math.max(1, Math.ceil(perSecond)), key = 'address' } = value
  if (typeof perSecond !== 'number' || !(perSecond >= 1e-6 && perSecond <= 1e6)) {
    throw rangeFault('ERR_MILLRACE_OPTION_RANGE', `limits.rate.perSecond is a number from 0.000001 to 1000000 (requests per second), not ${show(perSecond)}.`)
  }
  const entries = integer('limits.rate.entries', value.entries, [65536, 64, 16777216, 'entries'])
  if ((entries & (entries - 1)) !== 0) throw rangeFault('ERR_MILLRACE_OPTION_RANGE', `limits.rate.entries is a power of two, not ${entries}.`)
  return { perSecond, burst: integer('limits.rate.burst', burst, [1, 1, 1000000, 'requests']), entries, field: fieldOf(key) }
}

// '' for the address.
function fieldOf (key) {
  if (key === 'address') return ''
  const [, name] = /^header:([\w!#$%&'*+.^`|~-]{1,128})$/.exec(key) ?? []
  if (name === undefined) throw refuse(`limits.rate.key is 'address' or 'header:' and a field's name, not ${show(key)}.`)
  return name.toLowerCase()
}

function limitsOf (value) {
  if (value === undefined || value === null || typeof value !== 'object') return { limits: integers('limits', value, LIMITS), rate: null }
  const { rate, ...others } = value
  return { limits: integers('limits', others, LIMITS), rate: rateOf(rate) }
}

function overloadOf (value) {
  if (value === undefined || value === null) return null
  if (typeof value !== 'object') throw refuse(`overload is { lag }, not ${show(value)}.`)
  checkKeys(value, ['lag'], 'option in overload named', refuse)
  return { lag: integer('overload.lag', value.lag, [1000, 1, INT_MAX, 'ms']) }
}

function accessLogOf (value) {
  if (value === undefined || value === null || value === false) return null
  const given = typeof value === 'string' ? { path: value } : value
  if (typeof given !== 'object') throw refuse(`accessLog is a path or { path or fd, format }, not ${show(value)}.`)
  checkKeys(given, ['path', 'fd', 'format'], 'option in accessLog named', refuse)
  const { path, fd, format = 'combined' } = given
  if (!['common', 'combined', 'json'].includes(format)) throw refuse(`accessLog.format is 'common', 'combined' or 'json', not ${show(format)}.`)
  if ((path === undefined) === (fd === undefined)) throw refuse('accessLog has either a path or an fd.')
  if (path !== undefined && (typeof path !== 'string' || path === '' || path.includes('\0'))) throw refuse(`accessLog.path is a path, not ${show(path)}.`)
  return { path, fd: fd === undefined ? undefined : integer('accessLog.fd', fd, [1, 0, 1048576, 'a descriptor']), format }
}

function engineOf (value) {
  if (value === undefined || value === 'native' || value === 'node') return value
  throw refuse(`engine is 'native' or 'node', not ${show(value)}.`)
}

function parserOf (value) {
  if (value === undefined || value === 'millrace' || value === 'llhttp') return value ?? 'millrace'
  throw refuse(`parser is 'millrace' or 'llhttp', not ${show(value)}.`)
}

function routesOf (value) {
  if (value === undefined || value === null) return {}
  if (Object.prototype.toString.call(value) === '[object Object]') return value
  throw refuse(`routes is an object of patterns and answers, not ${show(value)}.${value instanceof Map ? ' Object.fromEntries() makes one of a Map.' : ''}`)
}

function functionOf (name, value) {
  if (value === undefined || value === null) return null
  if (typeof value === 'function') return value
  throw refuse(`${name} is a function, not ${show(value)}.`)
}

function checkNames (options) {
  if (options === null || typeof options !== 'object' || Array.isArray(options)) throw refuse(`The options are an object, not ${show(options)}.`)
  for (const alias of Object.keys(ALIASES)) {
    if (options[alias] !== undefined) throw refuse(`There is no option ${alias}. Did you mean ${ALIASES[alias]}?`)
  }
  for (const name of OF_TLS) {
    if (options[name] !== undefined) throw refuseUnsupported(`${name}: TLS is not there yet.`, 'Put a proxy that speaks it in front, and leave the option out.')
  }
  checkKeys(options, KEYS, 'option', refuse)
}

// The part of the options that reload() can change.
function normaliseAnswers ({ routes, handler, error }) {
  return {
    routes: routesOf(routes),
    handler: functionOf('handler', handler),
    error: functionOf('error', error)
  }
}

function normalise (options = {}) {
  checkNames(options)
  return {
    listeners: listenersOf(options, integer),
    proxySources: proxySourcesOf(options.proxyProtocol),
    trust: trustOf(options.trustProxy),
    threads: threadsOf(options.threads),
    engine: engineOf(options.engine),
    parser: parserOf(options.parser), // of the native engine; node:http has llhttp in any case
    ...limitsOf(options.limits),
    timeouts: integers('timeouts', options.timeouts, TIMEOUTS),
    live: liveOf(options),
    overload: overloadOf(options.overload),
    accessLog: accessLogOf(options.accessLog),
    ...normaliseAnswers(options)
  }
}

// What a reload gives, on top of what was in force. Given as null: taken away.
function normaliseReload (partial, before) {
  if (partial === null || typeof partial !== 'object' || Array.isArray(partial)) throw refuse(`reload() takes an object, not ${show(partial)}.`)
  checkKeys(partial, ['routes', 'handler', 'error'], 'option of reload() named', refuse)
  const merged = {}
  for (const name of ['routes', 'handler', 'error']) merged[name] = partial[name] === undefined ? before[name] : partial[name]
  return { ...before, ...normaliseAnswers(merged) }
}

function deadlineOf (options = {}) {
  if (options === null || typeof options !== 'object') throw refuse(`close() takes an object, not ${show(options)}.`)
  checkKeys(options, ['deadline', 'grace'], 'option of close() named', refuse)
  return integer('deadline', options.deadline, DEADLINE)
}

// How long idle connections stay open, for requests that are on their way already.
function graceOf ({ grace } = {}) {
  return integer('grace', grace, GRACE)
}

exports.normalise = normalise
exports.normaliseFleet = normaliseFleet
exports.normaliseReload = normaliseReload
exports.deadlineOf = deadlineOf
exports.graceOf = graceOf
