'use strict'
// How many requests of one route may be with its handler at one time, over all threads; the others
// wait in a queue of this thread, and what the queue does not hold is answered 503.

const { crew } = require('./crew')

const RETRY_S = '1'

// Within one thread.
class OwnPermits {
  #most
  #used = 0

  constructor (most) {
    this.#most = most
  }

  take () {
    if (this.#used >= this.#most) return false
    this.#used++
    return true
  }

  wait () {
    return this.take()
  }

  give (again) {
    this.#used--
    again()
  }

  pass () {}
}

// Over a fleet (src/engine/permits.c).
class FleetPermits {
  #binding
  #member
  #row
  #most

  constructor (binding, member, name, most) {
    this.#binding = binding
    this.#member = member
    this.#most = most
    this.#row = binding.routeRow(member, name)
  }

  get row () {
    return this.#row
  }

  take () {
    return this.#binding.takePermit(this.#member, this.#row, this.#most)
  }

  // What is given back from now on is heard of; what was given back before is taken now.
  wait () {
    this.#binding.awaitPermit(this.#member, this.#row)
    return this.take()
  }

  give (again) {
    this.#tell(this.#binding.givePermit(this.#member, this.#row), again)
  }

  // This thread was told of one that it does not want any more.
  pass (again) {
    this.#tell(this.#binding.passPermit(this.#member, this.#row), again)
  }

  #tell (seat, again) {
    if (seat < 0) return
    if (crew === null || seat === crew.seat) again()
    else crew.office.control(-1 - seat, { type: 'permit', row: this.#row })
  }
}

// The handler behind a limit. queue: how many may wait.
function limited (fn, permits, queue) {
  const waiting = []

  const done = () => permits.give(drain)

  async function run (req, res) {
    try {
      const value = await fn(req, res)
      if (value === undefined && !res.sent) await res.finished // it answers later
      return value
    } finally {
      done()
    }
  }

  // Takes from the queue as long as there are permits.
  function drain () {
    while (waiting.length > 0 && permits.wait()) {
      const next = waiting.shift()
      if (next.req.aborted) {
        next.resolve(undefined)
        done()
        return // which has come back here
      }
      next.resolve(run(next.req, next.res))
    }
    if (waiting.length === 0) permits.pass(drain)
  }

  function handler (req, res) {
    if (waiting.length === 0 && permits.take()) return run(req, res)
    if (waiting.length >= queue) {
      res.status(503).header('Retry-After', RETRY_S)
      return 'Service Unavailable'
    }
    const promise = new Promise((resolve) => waiting.push({ req, res, resolve }))
    if (waiting.length === 1) drain()
    return promise
  }

  if (permits.row !== undefined && crew !== null) crew.onPermit(permits.row, drain)
  return handler
}

// Entries with a limit get a handler that keeps it. member: of a fleet, or undefined.
function withPermits (entry, name, binding, member) {
  if (!entry.concurrency) return entry
  const { most, queue } = entry.concurrency
  const permits = member === undefined ? new OwnPermits(most) : new FleetPermits(binding, member, name, most)
  return { ...entry, fn: limited(entry.fn, permits, queue) }
}

exports.withPermits = withPermits
