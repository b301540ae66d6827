'use strict'
// What serve() gives back. The same for both engines; the engine itself is the driver:
//   driver { port, swap(app), stop() -> promise, force() }
//     swap   from now on, requests are answered by this table
//     stop   accepts no more, lets what runs finish; resolves when nothing is left
//     force  ends what is left at once; only after stop()

const { fault } = require('./errors')
const { normaliseReload, deadlineOf } = require('./options')
const { compile } = require('./routes')

const WILDCARDS = new Set(['::', '0.0.0.0', '::0', '0:0:0:0:0:0:0:0'])

function urlOf (host, port) {
  if (WILDCARDS.has(host)) return `http://127.0.0.1:${port}`
  return host.includes(':') ? `http://[${host}]:${port}` : `http://${host}:${port}`
}

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
    this.port = driver.port
    this.host = options.host
    this.url = urlOf(options.host, driver.port)
  }

  // Compiled before anything changes: a bad table leaves the old one in force.
  reload (partial) {
    if (this.#closed !== null) throw fault('ERR_MILLRACE_CLOSED', 'This server is closed.')
    const options = normaliseReload(partial, this.#options)
    this.#driver.swap(compile(options))
    this.#options = options
  }

  // Again: the same promise; an earlier deadline counts.
  async close (options) {
    const deadline = deadlineOf(options)
    if (this.#closed === null) this.#closed = this.#stop()
    else if (options?.deadline === undefined) return this.#closed
    this.#forceIn(deadline)
    return this.#closed
  }

  async #stop () {
    await this.#driver.stop()
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
