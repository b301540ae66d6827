'use strict'
// The options of serve(), checked against one table of defaults and bounds, and made plain.

const { fault, rangeFault, show } = require('./errors')
const { checkKeys } = require('./keys')

const INT_MAX = 2147483647 // also the longest timer, in ms

// name: [default, least, most, unit]
const LIMITS = {
  headerBytes: [16384, 1024, 65535, 'bytes'],
  headerCount: [100, 1, 1000, 'fields'],
  targetBytes: [8192, 16, 65535, 'bytes'],
  bodyBytes: [16777216, 0, INT_MAX, 'bytes'],
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

const PORT = [3000, 0, 65535, '0 for a free one']
const BACKLOG = [1024, 1, 65535, 'connections']
const DEADLINE = [10000, 0, INT_MAX, 'ms']
const KEYS = [
  'port', 'host', 'hostname', 'path', 'fd', 'backlog', 'threads', 'engine', 'routes', 'handler', 'error', 'limits', 'timeouts'
]

// What other servers call these.
const ALIASES = { fetch: 'handler', onError: 'error', listen: 'port', workers: 'threads' }

function refuse (detail) {
  return fault('ERR_MILLRACE_OPTION', detail)
}

function refuseUnsupported (detail) {
  return fault('ERR_MILLRACE_UNSUPPORTED', detail)
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

// Environment variables are strings, so a port may be one.
function portOf (value) {
  return integer('port', typeof value === 'string' && /^[0-9]{1,5}$/.test(value) ? Number(value) : value, PORT)
}

function hostOf ({ host, hostname }) {
  if (host !== undefined && hostname !== undefined && host !== hostname) throw refuse('host and hostname are the same option; give one.')
  const given = host ?? hostname
  if (given === undefined) return undefined
  if (typeof given === 'string' && given !== '' && !/[\s/\0]/.test(given)) return given.replace(/^\[(.*)\]$/, '$1')
  throw refuse(`host is a name or an address, not ${show(given)}.`)
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

function routesOf (value) {
  if (value === undefined || value === null) return {}
  if (typeof value === 'object' && !Array.isArray(value)) return value
  throw refuse(`routes is an object, not ${show(value)}.`)
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
  checkKeys(options, KEYS, 'option', refuse)
  for (const name of ['path', 'fd']) {
    if (options[name] !== undefined) throw refuseUnsupported(`Listening by ${name} is not there yet; give host and port.`)
  }
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
  const host = hostOf(options)
  return {
    port: portOf(options.port),
    host: host ?? '::', // dual-stack; without IPv6, '0.0.0.0'
    hasHost: host !== undefined,
    backlog: integer('backlog', options.backlog, BACKLOG),
    threads: threadsOf(options.threads),
    engine: engineOf(options.engine),
    limits: integers('limits', options.limits, LIMITS),
    timeouts: integers('timeouts', options.timeouts, TIMEOUTS),
    ...normaliseAnswers(options)
  }
}

// What a reload gives, on top of what was in force. Given as null: taken away.
function normaliseReload (partial, before) {
  if (partial === null || typeof partial !== 'object' || Array.isArray(partial)) throw refuse(`reload() takes an object, not ${show(partial)}.`)
  checkKeys(partial, ['routes', 'handler', 'error'], 'option for reload()', refuse)
  const merged = {}
  for (const name of ['routes', 'handler', 'error']) merged[name] = partial[name] === undefined ? before[name] : partial[name]
  return { ...before, ...normaliseAnswers(merged) }
}

function deadlineOf (options = {}) {
  if (options === null || typeof options !== 'object') throw refuse(`close() takes an object, not ${show(options)}.`)
  checkKeys(options, ['deadline'], 'option for close()', refuse)
  return integer('deadline', options.deadline, DEADLINE)
}

exports.normalise = normalise
exports.normaliseReload = normaliseReload
exports.deadlineOf = deadlineOf
