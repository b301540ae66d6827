'use strict'
// What children of these tests use: a server whose internals can be looked at, and waiting.

const fs = require('node:fs')
const { serve } = require('../..')
const { loadNative } = require('../../lib/load')
const { Dispatcher } = require('../../lib/dispatch')

const { binding } = loadNative()
// Without these, a time-out that fires would bring the turn that something else forgot to ask for.
const NO_TIMEOUTS = { header: 0, body: 0, keepAlive: 0, send: 0 }
const LOOKS = 2000 // at 5 ms; only ends a wait that is in vain

// serve(), with the dispatcher that it makes: { server, dispatcher, stats(), counts }. counts are those
// of the requests that came up, call by call.
async function open (options) {
  const { open: original, onBatch } = Dispatcher.prototype
  const counts = []
  let dispatcher
  Dispatcher.prototype.open = function (handle) {
    dispatcher = this
    return original.call(this, handle)
  }
  Dispatcher.prototype.onBatch = function (count, ...rest) {
    counts.push(count)
    return onBatch.call(this, count, ...rest)
  }
  try {
    const server = await serve({ port: 0, host: '127.0.0.1', ...options, timeouts: { ...NO_TIMEOUTS, ...options.timeouts } })
    return { server, dispatcher, stats: () => binding.stats(dispatcher.handle), counts }
  } finally {
    Object.assign(Dispatcher.prototype, { open: original, onBatch })
  }
}

function descriptors () {
  return fs.readdirSync('/proc/self/fd').length
}

function pause (ms) {
  return new Promise((resolve) => { setTimeout(resolve, ms) })
}

async function until (what, check) {
  for (let i = 0; i < LOOKS; i++) {
    if (await check()) return
    await pause(5)
  }
  throw new Error(`waited in vain until ${what}`)
}

// The parts of a request object that records are made of.
function idOf (req) {
  const parts = {}
  for (const symbol of Object.getOwnPropertySymbols(req)) parts[symbol.description] = req[symbol]
  return parts
}

// A repeatable source of numbers from 0 to 2^32 - 1.
function randomFrom (seed) {
  let state = seed
  return () => {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9 >>> 0
    return (state ^ (state >>> 13)) >>> 0
  }
}

module.exports = { open, descriptors, pause, until, idOf, randomFrom, binding }
