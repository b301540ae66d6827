'use strict'
// The server on the native engine: gives the core its limits and routes, and drives its end.

const { lookup } = require('node:dns/promises')
const { isIP } = require('node:net')
const { getSystemErrorName } = require('node:util')
const { MillraceServer } = require('./server')
const { createIsolation } = require('./context')
const { Dispatcher, METHOD_NAMES } = require('./dispatch')

const ANY_METHOD = 0xffffffff
const NO_HANDLER = 0xffffffff
const NO_REPLY = 0xffffffff
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
  binding.beginRoutes(handle)
  try {
    for (const entry of app.entries) {
      const pattern = Buffer.from(entry.pattern, 'latin1')
      if (entry.kind === 'handler') {
        binding.addRoute(handle, pattern, maskOf(entry.methods), handlers.length, NO_REPLY, 0)
        handlers.push(entry)
      } else {
        const number = addReply(dispatcher, entry)
        numbers.push(number)
        binding.addRoute(handle, pattern, maskOf(entry.methods), NO_HANDLER, number, 0)
      }
    }
    binding.commitRoutes(handle, app.handler === null ? NO_HANDLER : handlers.length, 0)
  } finally {
    for (const number of numbers) binding.dropReply(handle, number) // the table holds them now
  }
  dispatcher.use(app, handlers)
}

// ---- listening ----

async function addressesOf ({ host, hasHost }) {
  if (!hasHost) return ['::', '0.0.0.0'] // the second where there is no IPv6
  if (isIP(host) !== 0) return [host]
  return [(await lookup(host)).address]
}

function systemFault (code) {
  const name = getSystemErrorName(code)
  return Object.assign(new Error(`listen ${name}`), { code: name, errno: code })
}

async function listen (binding, handle, options) {
  const addresses = await addressesOf(options)
  for (const address of addresses) {
    const result = binding.listen(handle, address, options.port, options.backlog, false, false)
    if (result >= 0) return result
    const err = systemFault(result)
    const isLast = address === addresses[addresses.length - 1]
    if (isLast || (err.code !== 'EAFNOSUPPORT' && err.code !== 'EADDRNOTAVAIL')) throw err
  }
}

// ---- the server ----

function coreOptions ({ limits, timeouts }) {
  return {
    headerBytes: limits.headerBytes,
    headerCount: limits.headerCount,
    targetBytes: limits.targetBytes,
    bodyBytes: limits.bodyBytes,
    connections: limits.connections,
    requestsPerConnection: limits.requestsPerConnection,
    heldBytes: limits.outgoingBytes * HELD_FACTOR,
    ...timeouts
  }
}

function end (dispatcher) {
  if (dispatcher.isClosed) return
  dispatcher.binding.destroy(dispatcher.handle)
  dispatcher.close()
  dispatcher.isolation.dispose()
}

function stop (dispatcher) {
  return new Promise((resolve) => {
    dispatcher.onDrained = () => {
      dispatcher.onDrained = null
      end(dispatcher)
      resolve()
    }
    dispatcher.binding.shutdown(dispatcher.handle)
  })
}

async function createServer (options, app, binding) {
  // First of all and before any wait: requests run in the async context of serve().
  const dispatcher = new Dispatcher(binding, createIsolation())
  dispatcher.open(binding.create(coreOptions(options), dispatcher.onBatch))
  try {
    install(dispatcher, app)
    const port = await listen(binding, dispatcher.handle, options)
    return new MillraceServer(options, 'native', {
      port,
      swap: (next) => install(dispatcher, next),
      stop: () => stop(dispatcher),
      force: () => dispatcher.onDrained?.()
    })
  } catch (err) {
    end(dispatcher)
    throw err
  }
}

exports.createServer = createServer
