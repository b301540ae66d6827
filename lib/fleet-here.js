'use strict'
// What launch() gives back where there is no native engine: the fleet of one thread, this one.

const { EventEmitter } = require('node:events')
const { fault } = require('./errors')
const { runHooks } = require('./bus')
const { deadlineOf } = require('./options')

class FleetHere extends EventEmitter {
  #servers = []
  #first
  #resolve
  #close = null
  #finish

  constructor (options) {
    super()
    this.engine = 'node'
    this.threads = 1
    this.overrides = options.overrides
    this.balance = Object.freeze({ mode: 'none', reason: 'The fallback on node:http serves in one thread.' })
    this.#first = new Promise((resolve) => { this.#resolve = resolve })
    this.done = new Promise((resolve) => { this.#finish = resolve })
    if (options.signals) for (const name of ['SIGTERM', 'SIGINT']) process.once(name, () => this.#leave(options.deadline))
  }

  add (server) {
    this.#servers.push(server)
    this.#resolve()
  }

  async listening (ms) {
    let timer
    const late = new Promise((resolve, reject) => {
      timer = setTimeout(() => reject(fault('ERR_MILLRACE_LAUNCH', `The program has not begun to listen within ${ms} ms.`)), ms)
    })
    await Promise.race([this.#first, late]).finally(() => clearTimeout(timer))
    this.addresses = this.#servers[0].addresses
    Object.assign(this, this.addresses[0]) // url, host, port, path
    setImmediate(() => this.emit('up', 0))
    return this
  }

  metrics () {
    return this.#servers[0].metrics()
  }

  health () {
    return this.#servers[0].health()
  }

  reopenAccessLog () {}

  async reload () {
    throw fault('ERR_MILLRACE_UNSUPPORTED', 'Threads are replaced by the native engine only; restart the process.')
  }

  async close (options) {
    deadlineOf(options)
    this.#close ??= Promise.all(this.#servers.map((server) => server.close(options))).then(runHooks).then(() => {
      this.emit('down', 0, null)
      this.#finish()
    })
    return this.#close
  }

  async #leave (deadline) {
    await this.close({ deadline })
    process.exit(0)
  }
}

exports.FleetHere = FleetHere
