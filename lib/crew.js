'use strict'
// A thread's membership in a fleet, seen from inside: it joins before anything else happens, tells the
// supervisor that it listens, and does what the supervisor says.

const { isMainThread, getEnvironmentData, setEnvironmentData } = require('node:worker_threads')
const { fault } = require('./errors')
const { loadNative, reasonOf } = require('./load')
const { Office } = require('./mail')
const { settleMetrics } = require('./metrics')

const DATA = 'millrace:seat' // { fleet, seat, thread, threads, name, cpu, overrides }: what the supervisor gives
const SUPERVISOR = -1 // as fleetPost() has it

class Crew {
  #data
  #binding
  #servers = new Set() // { close({ deadline, grace }), migrate(seat, deadline) } of this thread
  #hooks = []
  #permits = new Map() // row -> Set of functions
  #isLeaving = false
  #isUp = false
  #keys = new Map() // listener's key -> how often this thread has asked for it

  constructor (data) {
    const { binding } = loadNative()
    if (binding === null) throw fault('ERR_MILLRACE_NO_NATIVE', `A thread of a fleet cannot load the native engine. ${reasonOf(loadNative())}`)
    this.#data = data
    this.#binding = binding
    this.office = new Office(binding)
    this.office.onControl = (message) => this.#obey(message)
    this.office.open(binding.fleetJoin(data.fleet, data.seat, this.office.onMail))
    binding.fleetRef(this.office.handle, true)
    settleMetrics(binding, this.office.handle)
    binding.nameThread(data.name)
    if (data.cpu !== undefined) binding.pinThread(data.cpu)
  }

  get handle () {
    return this.office.handle
  }

  get seat () {
    return this.#data.seat
  }

  get index () {
    return this.#data.thread
  }

  get threads () {
    return this.#data.threads
  }

  get overrides () {
    return this.#data.overrides
  }

  // What names a listener in all threads: each asks for the same ones in the same order.
  keyOf (where) {
    const count = (this.#keys.get(where) ?? 0) + 1
    this.#keys.set(where, count)
    return `${where}#${count}`
  }

  // drain: called when a permit of the route's row may be had.
  onPermit (row, drain) {
    if (!this.#permits.has(row)) this.#permits.set(row, new Set())
    this.#permits.get(row).add(drain)
  }

  // Awaited before the thread ends.
  onExit (hook) {
    this.#hooks.push(hook)
  }

  add (server, addresses) {
    this.#servers.add(server)
    if (this.#isUp || this.#isLeaving) return
    this.#isUp = true
    this.#binding.fleetUp(this.handle)
    this.office.control(SUPERVISOR, { type: 'up', seat: this.#data.seat, addresses })
  }

  #obey (message) {
    switch (message.type) {
      case 'close':
        this.#leave((server) => server.close({ deadline: message.deadline, grace: message.grace }))
        break
      case 'retire':
        this.#leave((server) => server.migrate(message.heir, message.deadline))
        break
      case 'gone':
        this.office.seatGone(message.seat)
        for (const drains of this.#permits.values()) for (const drain of drains) drain() // what it held is free
        break
      case 'permit':
        for (const drain of this.#permits.get(message.row) ?? []) drain()
    }
  }

  async #leave (endOne) {
    if (this.#isLeaving) return
    this.#isLeaving = true
    this.#binding.fleetDraining(this.handle)
    const errors = []
    const quietly = (promise) => promise.catch((err) => errors.push(err))
    await Promise.all([...this.#servers].map((server) => quietly(endOne(server))))
    for (const hook of this.#hooks) await quietly((async () => hook())())
    for (const err of errors) console.error('millrace: while a thread ended:', err)
    // What was posted before is read first: once round the loop, and once for what that brought.
    setImmediate(() => setImmediate(() => process.exit(0)))
  }
}

function joinIfAsked () {
  if (isMainThread) return null
  const data = getEnvironmentData(DATA)
  if (data === undefined) return null
  setEnvironmentData(DATA, undefined) // not for threads that this one starts
  return new Crew(data)
}

exports.DATA = DATA
exports.crew = joinIfAsked()
