'use strict'
// What serve() gives back. The same for both engines; the engine itself is the driver:
//   driver { addresses, swap(app), stop(grace) -> promise, force() }
//     addresses  where it listens (listen.js), at least one
//     swap   from now on, requests are answered by this table
//     stop   accepts no more, lets what runs finish; resolves when nothing is left
//     force  ends what is left at once; only after stop()

const { fault } = require('./errors')
const { normaliseReload, deadlineOf, graceOf } = require('./options')
const { compile } = require('./routes')

class MillraceServer {
  #options
  #driver
  #closed = null // the promise of close()
  #timer = null
  #forceAt = Infinity

  constructor (options, engine, driver) {
    this.#options = options
    this.#driver = driver
    this.engine = engine
    this.addresses = Object.freeze(driver.addresses)
    Object.assign(this, driver.addresses[0]) // url, host, port, path
  }

  // Compiled before anything changes: a bad table leaves the old one in force.
  reload (partial) {
    if (this.#closed !== null) throw fault('ERR_MILLRACE_CLOSED', 'This server is closed.')
    const options = normaliseReload(partial, this.#options)
    this.#driver.swap(compile(options))
    this.#options = options
  }

  // Of all threads of the fleet, as text for Prometheus.
  metrics () {
    return this.#driver.metrics()
  }

  // The access log goes on in a new file of its name.
  reopenAccessLog () {
    this.#driver.reopenAccessLog()
  }

  // { status, threads: [{ thread, state, heartbeatAge, lag, utilisation, mailboxDepth, connections }] }
  health () {
    return JSON.parse(this.#driver.health())
  }

  // Again: the same promise; an earlier deadline counts.
  async close (options) {
    const deadline = deadlineOf(options)
    if (this.#closed === null) this.#closed = this.#stop(Math.min(graceOf(options), deadline))
    else if (options?.deadline === undefined) return this.#closed
    this.#forceIn(deadline)
    return this.#closed
  }

  async #stop (grace) {
    await this.#driver.stop(grace)
    clearTimeout(this.#timer)
    this.#forceAt = -Infinity
  }

  #forceIn (deadline) {
    const at = Date.now() + deadline
    if (at >= this.#forceAt) return
    this.#forceAt = at
    clearTimeout(this.#timer)
    if (deadline === 0) this.#driver.force()
    else this.#timer = setTimeout(() => this.#driver.force(), deadline)
  }
}

exports.MillraceServer = MillraceServer
