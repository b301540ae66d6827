'use strict'
// The options of serve(), checked against one table of defaults and bounds, and made plain.

const { fault, rangeFault, show } = require('./errors')
const { checkKeys } = require('./keys')
const { PLACES, listenersOf, rangesOf } = require('./listen')
const { trustOf } = require('./forwarded')

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
const GRACE = [250, 0, INT_MAX, 'ms']
const KEYS = [
  ...PLACES, 'listen', 'proxyProtocol', 'trustProxy', 'threads', 'engine', 'parser', 'routes', 'handler', 'error', 'limits', 'timeouts'
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
  if (value === undefined || value === 1) return 1
  const isCount = Number.isInteger(value) && value > 1 && value <= 1024
  if (isCount || value === 'auto') throw refuseUnsupported(`threads: ${show(value)} is not there yet; this version runs one thread.`)
  throw rangeFault('ERR_MILLRACE_OPTION_RANGE', `threads is 1 in this version, not ${show(value)}.`)
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
    limits: integers('limits', options.limits, LIMITS),
    timeouts: integers('timeouts', options.timeouts, TIMEOUTS),
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
exports.normaliseReload = normaliseReload
exports.deadlineOf = deadlineOf
exports.graceOf = graceOf
