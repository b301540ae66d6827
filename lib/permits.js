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

  let first = 0 // of waiting; those before it are done with
  let isDraining = false

  // The next whose client is still there; they are many when all of them went.
  function next () {
    while (first < waiting.length) {
      const { req, res, resolve } = waiting[first]
      if (!req.aborted) return waiting[first]
      waiting[first++] = null
      resolve(res)
    }
    waiting.length = first = 0
    return null
  }

  // Takes from the queue as long as there are permits. What it runs may come back here.
  function drain () {
    if (isDraining) return
    isDraining = true
    for (let one = next(); one !== null && permits.wait(); one = next()) {
      waiting[first++] = null
      one.resolve(run(one.req, one.res))
    }
    if (first > 1000 && first * 2 > waiting.length) {
      waiting.splice(0, first)
      first = 0
    }
    isDraining = false
    if (waiting.length === 0) permits.pass(drain)
  }

  const queued = () => waiting.length - first

  function handler (req, res) {
    if (queued() === 0 && permits.take()) return run(req, res)
    if (queued() >= queue) next() // whoever went makes room
    if (queued() >= queue) {
      res.status(503).header('Retry-After', RETRY_S)
      return 'Service Unavailable'
    }
    const promise = new Promise((resolve) => waiting.push({ req, res, resolve }))
    if (queued() === 1) drain()
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
