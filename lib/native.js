'use strict'
// The server on the native engine: gives the core its limits and routes, and drives its end.

const { getSystemErrorName } = require('node:util')
const { fault } = require('./errors')
const { MillraceServer } = require('./server')
const { createIsolation } = require('./context')
const { Dispatcher, METHOD_NAMES } = require('./dispatch')
const { chooseTransport } = require('./load')
const { crew } = require('./crew')
const { withPermits } = require('./permits')
const { FleetOfOne, needsFleet } = require('./fleet-of-one')
const {
  addressesOf, clearStale, expand, isAbstract, listenFault, packRanges, tcpAddress, unixAddress
} = require('./listen')

const ANY_METHOD = 0xffffffff
const NO_HANDLER = 0xffffffff
const NO_REPLY = 0xffffffff
const LIVE = { metrics: 2, health: 4, ready: 8 } // MR_ACTION_... of src/engine/route.h
const ACCESS_STYLES = { common: 1, combined: 2, json: 3 }
const HELD_FACTOR = 4 // of limits.outgoingBytes: then the connection is given up
const ESCAPES = { none: 0, html: 1, json: 2 }
const PART = { literal: 0, param: 1, query: 2, header: 3 }

// ---- routes ----

function maskOf (methods) {
  if (methods === null) return ANY_METHOD
  let mask = 0
  for (const name of methods) mask |= 1 << METHOD_NAMES.indexOf(name)
  return mask >>> 0
}

function partOf (part, params) {
  if (part.literal !== undefined) return { kind: PART.literal, index: 0, text: part.literal, fallback: null }
  if (part.param !== undefined) return { kind: PART.param, index: params.indexOf(part.param), text: null, fallback: null }
  const kind = part.query !== undefined ? 'query' : 'header'
  const fallback = part.fallback === '' ? null : Buffer.from(part.fallback)
  return { kind: PART[kind], index: 0, text: Buffer.from(part[kind]), fallback }
}

function addReply (dispatcher, { descriptor, params }) {
  const { status, hasDate, head, body = null, escape = 'none', parts = null } = descriptor
  return dispatcher.addReply(status, hasDate, head, body, ESCAPES[escape], parts?.map((part) => partOf(part, params)) ?? null)
}

// Builds the core's table and swaps it in. Throws, with the old one still in force, when it cannot.
function install (dispatcher, app) {
  const { binding, handle } = dispatcher
  const handlers = []
  const numbers = []
  let waiting = 0
  binding.beginRoutes(handle)
  try {
    for (const entry of app.entries) {
      const pattern = Buffer.from(entry.pattern, 'latin1')
      const name = Buffer.from(entry.methods === null ? entry.pattern : `${entry.methods.join(',')} ${entry.pattern}`)
      if (entry.kind === 'handler') {
        binding.addRoute(handle, pattern, maskOf(entry.methods), handlers.length, NO_REPLY, 0, entry.bodyBytes, name)
        handlers.push(withPermits(entry, name, binding, dispatcher.member))
      } else if (entry.kind === 'live') {
        binding.addRoute(handle, pattern, maskOf(entry.methods), NO_HANDLER, NO_REPLY, LIVE[entry.what], 0, name)
      } else {
        const number = addReply(dispatcher, entry)
        numbers.push(number)
        binding.addRoute(handle, pattern, maskOf(entry.methods), NO_HANDLER, number, 0, 0, name)
      }
    }
    waiting = binding.commitRoutes(handle, app.handler === null ? NO_HANDLER : handlers.length, 0)
  } finally {
    for (const number of numbers) binding.dropReply(handle, number) // the table holds them now
  }
  dispatcher.use(app, handlers, waiting)
}

// ---- listening ----

function systemFault (code) {
  const name = getSystemErrorName(code)
  return Object.assign(new Error(`listen ${name}`), { code: name, errno: code })
}

// In a fleet the sockets are the fleet's, under a key that all threads agree on.
function tryListen (binding, handle, where, { port = 0, backlog = 1, ipv6Only = false, reusePort = false, mode }) {
  const key = crew?.keyOf(`${where}|${port}|${backlog}|${ipv6Only}|${mode}`)
  const result = binding.listen(handle, where, port, backlog, ipv6Only, reusePort, mode, key)
  if (result < 0) throw systemFault(result)
  return result
}

async function listenTcp (binding, handle, listener) {
  const addresses = await addressesOf(listener)
  for (const address of addresses) {
    try {
      return tcpAddress(listener.host, tryListen(binding, handle, address, listener), listener.ipv6Only)
    } catch (err) {
      const isLast = address === addresses.at(-1)
      if (isLast || (err.code !== 'EAFNOSUPPORT' && err.code !== 'EADDRNOTAVAIL')) throw err
    }
  }
}

async function listenUnix (binding, handle, listener) {
  const where = Buffer.from(listener.path)
  try {
    tryListen(binding, handle, where, listener)
  } catch (err) {
    if (err.code !== 'EADDRINUSE' || isAbstract(listener) || !await clearStale(listener.path)) throw err
    tryListen(binding, handle, where, listener)
  }
  return unixAddress(listener.path)
}

function describe (binding, { fd }) {
  const found = binding.describe(fd)
  if (typeof found === 'number') throw systemFault(found)
  const [family, port, text] = found
  return family === 0 ? unixAddress(text) : tcpAddress(text, port)
}

function listenOne (binding, handle, listener) {
  switch (listener.kind) {
    case 'unix': return listenUnix(binding, handle, listener)
    case 'fd': return tryListen(binding, handle, listener.fd, listener)
    default: return listenTcp(binding, handle, listener)
  }
}

async function explained (listener, work) {
  try {
    return await work()
  } catch (err) {
    throw listenFault(err, listener)
  }
}

// Descriptors are looked at before the first is taken.
async function listen (binding, handle, listeners) {
  const all = expand(listeners)
  const known = new Map()
  for (const each of all) {
    if (each.kind === 'fd') known.set(each, await explained(each, () => describe(binding, each)))
  }
  const addresses = []
  for (const each of all) {
    const address = await explained(each, () => listenOne(binding, handle, each))
    addresses.push(known.get(each) ?? address)
  }
  return addresses
}

// ---- the server ----

function coreOptions ({ limits, timeouts, parser, proxySources, rate, overload, accessLog }, transport) {
  return {
    transport,
    proxySources: packRanges(proxySources),
    wantsLlhttp: parser === 'llhttp' ? 1 : 0,
    headerBytes: limits.headerBytes,
    headerCount: limits.headerCount,
    targetBytes: limits.targetBytes,
    bodyBytes: limits.bodyBytes,
    bodyBytesPerSecond: limits.bodyBytesPerSecond,
    connections: limits.connections,
    requestsPerConnection: limits.requestsPerConnection,
    heldBytes: limits.outgoingBytes * HELD_FACTOR,
    ...timeouts,
    ratePerSecond: rate?.perSecond ?? 0,
    rateBurst: rate?.burst ?? 0,
    rateEntries: rate?.entries ?? 0,
    rateField: rate?.field ?? '',
    lagLimit: overload?.lag ?? 0,
    accessStyle: accessLog === null ? 0 : ACCESS_STYLES[accessLog.format],
    accessPath: accessLog?.path === undefined ? null : Buffer.from(accessLog.path),
    accessFd: accessLog?.fd ?? 0
  }
}

function end (dispatcher) {
  if (dispatcher.isClosed) return
  if (dispatcher.handle !== null) dispatcher.binding.destroy(dispatcher.handle)
  dispatcher.close()
  dispatcher.isolation.dispose()
  dispatcher.onEnd()
}

function stop (dispatcher, grace) {
  return new Promise((resolve) => {
    dispatcher.onDrained = () => {
      dispatcher.onDrained = null
      end(dispatcher)
      resolve()
    }
    dispatcher.binding.shutdown(dispatcher.handle, grace)
  })
}

function memberOf ({ member }) {
  if (member !== undefined) return member
  throw fault('ERR_MILLRACE_UNSUPPORTED', 'This server keeps no metrics.', undefined)
}

// Connections go on at the heir's as they become idle; at the deadline what is left is cut.
function migrate (dispatcher, heir, deadline) {
  if (dispatcher.isClosed) return Promise.resolve()
  return new Promise((resolve) => {
    const timer = setTimeout(() => dispatcher.onDrained(), deadline)
    dispatcher.onDrained = () => {
      dispatcher.onDrained = null
      clearTimeout(timer)
      end(dispatcher)
      resolve()
    }
    dispatcher.binding.migrate(dispatcher.handle, heir)
  })
}

// member: of a fleet, where it is not this thread's own.
async function createServer (options, app, binding, member = null) {
  const refusal = options.parser === 'llhttp' ? binding.info().llhttp : ''
  if (refusal !== '') throw fault('ERR_MILLRACE_UNSUPPORTED', `parser: 'llhttp' cannot be had of this Node. ${refusal}`, undefined, 'Leave the option out.')
  // First of all and before any wait: requests run in the async context of serve().
  const dispatcher = new Dispatcher(binding, createIsolation())
  dispatcher.limit(options.limits.outgoingBytes)
  dispatcher.trust = options.trust
  const alone = member === null && crew === null && needsFleet(options) ? new FleetOfOne(binding) : null
  dispatcher.onEnd = () => alone?.end()
  try {
    dispatcher.member = member ?? crew?.handle ?? alone?.handle
    dispatcher.open(binding.create(coreOptions(options, chooseTransport(binding).transport), dispatcher.onBatch, dispatcher.member))
    install(dispatcher, app)
    const addresses = await listen(binding, dispatcher.handle, options.listeners)
    const server = new MillraceServer(options, 'native', {
      addresses,
      swap: (next) => install(dispatcher, next),
      stop: (grace) => stop(dispatcher, grace),
      force: () => dispatcher.onDrained?.(),
      metrics: () => binding.fleetMetrics(memberOf(dispatcher)),
      health: () => binding.fleetHealth(memberOf(dispatcher)),
      reopenAccessLog: () => binding.fleetReopenLog(memberOf(dispatcher))
    })
    alone?.up()
    crew?.add({ close: (how) => server.close(how), migrate: (heir, deadline) => migrate(dispatcher, heir, deadline) }, addresses)
    return server
  } catch (err) {
    end(dispatcher)
    throw err
  }
}

exports.createServer = createServer
