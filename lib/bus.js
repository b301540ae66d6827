'use strict'
// What a program sees of the fleet from any of its threads: `bus` for messages, `self` for who it is.
// Without a fleet this thread is number 0 of one.

const { fault, show } = require('./errors')
const { crew } = require('./crew')
const { MAIN, CALL_TIMEOUT_MS, checkHandler, checkName } = require('./mail')

let office = crew?.office ?? null
let threads = () => crew?.threads ?? 1

// ---- without a fleet ----

// The same contract within one thread: delivered later, copied, in order.
class OwnOffice {
  #handlers = new Map()
  lost = 0

  on (name, handler) {
    checkHandler(this.#handlers, name, handler)
    this.#handlers.set(name, handler)
  }

  off (name) {
    return this.#handlers.delete(name)
  }

  // The handlers that were set before there was a fleet.
  moveTo (other) {
    for (const [name, handler] of this.#handlers) other.on(name, handler)
    this.#handlers.clear()
  }

  #copy (data) {
    try {
      if (data instanceof ArrayBuffer) return Buffer.from(new Uint8Array(data))
      if (ArrayBuffer.isView(data)) return Buffer.from(new Uint8Array(data.buffer, data.byteOffset, data.byteLength))
      return structuredClone(data)
    } catch (err) {
      throw fault('ERR_MILLRACE_MESSAGE', `${show(data)} cannot be sent to another thread.`, err)
    }
  }

  postAll (targets, name, data) {
    checkName(name)
    for (const to of targets) {
      if (to > 0) {
        this.lost++
        return false
      }
      const copy = this.#copy(data)
      setImmediate(() => this.#deliver(name, copy))
    }
    return true
  }

  #deliver (name, data) {
    const handler = this.#handlers.get(name)
    if (handler === undefined) this.lost++
    else Promise.resolve().then(() => handler(data, { from: 0 })).catch((err) => console.error('millrace: a message handler failed:', err))
  }

  call (to, name, data, timeout) {
    checkName(name)
    if (to > 0) return Promise.reject(fault('ERR_MILLRACE_THREAD_EXITED', `There is no such thread to call ${show(name)} on.`))
    const copy = this.#copy(data)
    return new Promise((resolve, reject) => {
      const late = () => reject(fault('ERR_MILLRACE_CALL_TIMEOUT', `No answer to ${show(name)} came in time.`))
      const timer = timeout === Infinity ? null : setTimeout(late, timeout)
      setImmediate(async () => {
        try {
          const handler = this.#handlers.get(name)
          if (handler === undefined) throw fault('ERR_MILLRACE_NO_HANDLER', `The thread has no handler for ${show(name)}.`)
          resolve(this.#copy(await handler(copy, { from: 0 })))
        } catch (err) {
          reject(err)
        } finally {
          clearTimeout(timer)
        }
      })
    })
  }
}

function officeOf () {
  office ??= new OwnOffice()
  return office
}

// The main thread supervises a fleet: its first one, or the next after that has ended.
function useOffice (given, count) {
  const isTaken = office !== null && !(office instanceof OwnOffice) && office.handle !== null
  if (isTaken) return
  office?.moveTo(given)
  office = given
  threads = count
}

// ---- bus ----

// As fleetPost() has it; the thread's own number included.
function targetOf (thread) {
  if (thread === MAIN) return -1
  if (Number.isInteger(thread) && thread >= 0 && thread < threads()) return thread
  throw fault('ERR_MILLRACE_MESSAGE', `A message goes to a thread's number from 0 to ${threads() - 1}, to 'main', or (post) to 'all', not to ${show(thread)}.`)
}

function timeoutOf (options = {}) {
  const { timeout = CALL_TIMEOUT_MS } = options
  if (timeout === Infinity || (Number.isInteger(timeout) && timeout > 0 && timeout <= 2147483647)) return timeout
  throw fault('ERR_MILLRACE_MESSAGE', `timeout is a number of milliseconds from 1, or Infinity, not ${show(timeout)}.`)
}

function busOf (own) {
  return {
    on (name, handler) {
      own().on(name, handler)
      return this
    },
    off: (name) => own().off(name),
    post (thread, name, data) {
      const targets = thread === 'all' ? Array.from({ length: threads() }, (_, i) => i) : [targetOf(thread)]
      return own().postAll(targets, name, data)
    },
    call (thread, name, data, options) {
      try {
        return own().call(targetOf(thread), name, data, timeoutOf(options))
      } catch (err) {
        return Promise.reject(err)
      }
    },
    get lost () { return own().lost }
  }
}

const bus = busOf(officeOf)
const hooks = []

const self = {
  get index () { return crew?.index ?? (threads() > 1 || (office !== null && !(office instanceof OwnOffice)) ? -1 : 0) },
  get threads () { return threads() },
  onExit (hook) {
    if (typeof hook !== 'function') throw fault('ERR_MILLRACE_OPTION', `self.onExit() takes a function, not ${show(hook)}.`)
    if (crew === null) hooks.push(hook)
    else crew.onExit(hook)
  }
}

// Of the one thread of a fleet on node:http; a failing one does not keep the others from running.
async function runHooks () {
  for (const hook of hooks.splice(0)) await Promise.resolve().then(hook).catch((err) => console.error('millrace: while a thread ended:', err))
}

exports.runHooks = runHooks
exports.bus = bus
exports.self = self
exports.useOffice = useOffice
