'use strict'
// Messages between the threads of a fleet, seen from one of them: what was posted is encoded into the
// mailbox of the other thread (src/engine/mailbox.h) at once, and what came is walked through once for
// each call from the core.

const v8 = require('node:v8')
const { fault, show } = require('./errors')

const KIND = { post: 1, call: 2, answer: 3, control: 4 }
const WORDS = 8
const IS_LARGE = 0xffffffff
// How the octets of a message are to be read.
const AS = { nothing: 0, text: 1, bytes: 2, value: 3 }
const FAILED = 8 // with an answer: it is an error, and this flag beside how it is written
const MISSING = 16 // with an answer: nobody handles that name
const RC = { gone: -3, limit: -4, nomem: -6, invalid: -7 } // of src/base/rc.h
const MAIN = 'main'
const CALL_TIMEOUT_MS = 5000
const NAME_BYTES = 256
const CALLS_MAX = 65536 // that wait for their answers, of one thread

function encode (data) {
  if (typeof data === 'string') return { as: AS.text, bytes: data }
  if (data === undefined) return { as: AS.nothing, bytes: undefined }
  if (data instanceof Uint8Array) return { as: AS.bytes, bytes: data }
  if (ArrayBuffer.isView(data)) return { as: AS.bytes, bytes: new Uint8Array(data.buffer, data.byteOffset, data.byteLength) }
  if (data instanceof ArrayBuffer) return { as: AS.bytes, bytes: new Uint8Array(data) }
  try {
    return { as: AS.value, bytes: v8.serialize(data) }
  } catch (err) {
    throw fault('ERR_MILLRACE_MESSAGE', `${show(data)} cannot be sent to another thread.`, err)
  }
}

// What is read from `bytes` is copied: the memory is used again for the next messages.
function decode (as, bytes) {
  switch (as) {
    case AS.text: return bytes.utf8Slice(0, bytes.length)
    case AS.bytes: return Buffer.from(bytes)
    case AS.value: return v8.deserialize(Buffer.from(bytes)) // what it reads may point into what it was given
    default: return undefined
  }
}

// Never throws: what cannot be copied is described.
function describeError (err) {
  try {
    if (!(err instanceof Error)) return encode({ thrown: err })
    const { name, message, code, stack } = err
    return encode({ name, message, code, stack })
  } catch {
    return encode({ name: 'Error', message: `A message handler failed with ${show(err)}.`, stack: undefined })
  }
}

function rebuildError (given) {
  if ('thrown' in given) return given.thrown
  const err = new Error(given.message)
  err.name = given.name
  if (given.code !== undefined) err.code = given.code
  err.remoteStack = given.stack
  return err
}

function checkName (name) {
  const isName = typeof name === 'string' && name !== '' && Buffer.byteLength(name) <= NAME_BYTES && !name.includes('\0')
  if (!isName) throw fault('ERR_MILLRACE_MESSAGE', `A message's name is a text of 1 to ${NAME_BYTES} bytes, not ${show(name)}.`)
}

// handlers: the Map that it is to be added to.
function checkHandler (handlers, name, handler) {
  if (typeof handler !== 'function') throw fault('ERR_MILLRACE_MESSAGE', `The handler of messages is a function, not ${show(handler)}.`)
  if (handlers.has(name)) throw fault('ERR_MILLRACE_MESSAGE', `Messages named ${show(name)} have a handler already; bus.off() removes it.`)
  checkName(name)
}

class Office {
  #binding
  #handle = null
  #records = null
  #bytes = null
  #numbers = new Map() // name -> number
  #names = [] // number -> name
  #handlers = new Map() // name -> function
  #byNumber = [] // number -> function, or undefined
  #calls = new Map() // id -> { resolve, reject, seat, at, name }
  #lastCall = 0
  #timer = null
  #timerAt = Infinity
  onControl = () => {}
  lost = 0 // posts that found no room or nobody

  constructor (binding) {
    this.#binding = binding
  }

  // The handle of fleetCreate() or fleetJoin(), which was given onMail.
  open (handle) {
    this.#handle = handle
    this.#records = handle.records
    this.#bytes = Buffer.from(handle.bytes.buffer, handle.bytes.byteOffset, handle.bytes.byteLength)
    for (const name of this.#handlers.keys()) this.#numberOf(name)
  }

  close () {
    this.#handle = null
    clearTimeout(this.#timer)
    this.#timerAt = Infinity
    for (const id of [...this.#calls.keys()]) this.#reject(id, 'ERR_MILLRACE_THREAD_EXITED', 'This thread leaves its fleet.')
  }

  get handle () {
    return this.#handle
  }

  // ---- names ----

  #numberOf (name) {
    let number = this.#numbers.get(name)
    if (number !== undefined) return number
    checkName(name)
    number = this.#binding.fleetName(this.#handle, name)
    if (number < 0) throw fault('ERR_MILLRACE_MESSAGE', 'There are 4,096 names of messages already; put what varies into the data.')
    this.#numbers.set(name, number)
    this.#names[number] = name
    this.#byNumber[number] = this.#handlers.get(name)
    return number
  }

  #nameOf (number) {
    if (this.#names[number] === undefined) this.#numberOf(this.#binding.fleetNameText(this.#handle, number))
    return this.#names[number]
  }

  on (name, handler) {
    checkHandler(this.#handlers, name, handler)
    this.#handlers.set(name, handler)
    if (this.#handle !== null) this.#byNumber[this.#numberOf(name)] = handler
  }

  off (name) {
    if (!this.#handlers.delete(name)) return false
    if (this.#handle !== null) this.#byNumber[this.#numberOf(name)] = undefined
    return true
  }

  // The handlers, to the office of the next fleet.
  moveTo (other) {
    for (const [name, handler] of this.#handlers) other.on(name, handler)
    this.#handlers.clear()
  }

  // ---- out ----

  // Returns the seat that it went to, or a negative RC.
  #send (to, kind, flags, number, call, bytes) {
    if (this.#handle === null) return RC.gone
    return this.#binding.fleetPost(this.#handle, to, kind, flags, number, call >>> 0, Math.floor(call / 2 ** 32), bytes)
  }

  // targets: as fleetPost() has them; encoded once. False: one found no room, or nobody.
  postAll (targets, name, data) {
    const { as, bytes } = encode(data)
    checkName(name)
    if (this.#handle === null) {
      this.lost += targets.length
      return false
    }
    const number = this.#numberOf(name)
    let isWhole = true
    for (const to of targets) {
      if (!this.#check(this.#send(to, KIND.post, as, number, 0, bytes), name)) isWhole = false
    }
    return isWhole
  }

  #check (sent, name) {
    if (sent === RC.invalid) throw fault('ERR_MILLRACE_MESSAGE', `The message ${show(name)} is larger than 64 MiB.`)
    if (sent < 0) this.lost++
    return sent >= 0
  }

  control (to, message) {
    return this.#send(to, KIND.control, AS.text, 0, 0, JSON.stringify(message)) >= 0
  }

  call (to, name, data, timeout = CALL_TIMEOUT_MS) {
    const { as, bytes } = encode(data)
    checkName(name)
    if (this.#handle === null) return Promise.reject(this.#refusal(RC.gone, name))
    const number = this.#numberOf(name)
    if (this.#calls.size >= CALLS_MAX) return Promise.reject(fault('ERR_MILLRACE_MAILBOX_FULL', `${CALLS_MAX} calls of this thread wait for their answers already.`))
    const id = ++this.#lastCall
    const seat = this.#send(to, KIND.call, as, number, id, bytes)
    if (seat < 0) return Promise.reject(this.#refusal(seat, name))
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject, seat, at: performance.now() + timeout, name })
      if (timeout !== Infinity) this.#arm(timeout)
    })
  }

  #refusal (rc, name) {
    if (rc === RC.gone) return fault('ERR_MILLRACE_THREAD_EXITED', `There is no such thread to call ${show(name)} on.`)
    if (rc === RC.invalid) return fault('ERR_MILLRACE_MESSAGE', `The message ${show(name)} is larger than 64 MiB.`)
    return fault('ERR_MILLRACE_MAILBOX_FULL', `The thread to call ${show(name)} on has not read what was sent before.`)
  }

  // ---- calls that wait ----

  #reject (id, code, detail) {
    const call = this.#calls.get(id)
    this.#calls.delete(id)
    call.reject(fault(code, detail))
  }

  // One timer for all, set for the earliest; a late one costs a walk over all that wait.
  #arm (ms) {
    const at = performance.now() + ms
    if (at >= this.#timerAt) return
    clearTimeout(this.#timer)
    this.#timerAt = at
    this.#timer = setTimeout(() => this.#expire(), Math.max(1, Math.ceil(ms)))
    this.#timer.unref() // it outlives its calls; what they wait for keeps the loop alive
  }

  #expire () {
    const now = performance.now()
    let next = Infinity
    this.#timerAt = Infinity
    for (const [id, { at, name }] of this.#calls) {
      if (at <= now) this.#reject(id, 'ERR_MILLRACE_CALL_TIMEOUT', `No answer to ${show(name)} came in time.`)
      else next = Math.min(next, at)
    }
    if (next !== Infinity) this.#arm(next - now)
  }

  // A thread has ended: it answers nothing any more.
  seatGone (seat) {
    for (const [id, call] of this.#calls) {
      if (call.seat === seat) this.#reject(id, 'ERR_MILLRACE_THREAD_EXITED', `The thread ended before it answered ${show(call.name)}.`)
    }
  }

  // ---- in ----

  onMail = (count, large) => {
    const records = this.#records
    let next = 0
    for (let i = 0; i < count; i++) {
      const at = i * WORDS
      const offset = records[at + 6]
      const bytes = offset === IS_LARGE ? large[next++] : this.#bytes.subarray(offset, offset + records[at + 7])
      try {
        this.#take(records[at], records[at + 1], records[at + 2], records[at + 3], records[at + 4] + records[at + 5] * 2 ** 32, bytes)
      } catch (err) {
        this.#report(err)
      }
    }
  }

  #take (kind, flags, sender, number, call, bytes) {
    switch (kind) {
      case KIND.post:
        this.#deliver(number, decode(flags, bytes), sender)
        break
      case KIND.call:
        this.#answer(number, flags, bytes, sender, call)
        break
      case KIND.answer:
        this.#settle(call, flags, bytes)
        break
      default:
        this.onControl(JSON.parse(decode(flags, bytes)), sender & 0xffff)
    }
  }

  #handlerOf (number) {
    const name = this.#nameOf(number) // learns the number, if it is new here
    return { name, handler: this.#byNumber[number] }
  }

  #deliver (number, data, sender) {
    let handler = this.#byNumber[number]
    if (handler === undefined) handler = this.#handlerOf(number).handler
    if (handler === undefined) {
      this.lost++
      return
    }
    const result = handler(data, whoIs(sender))
    if (typeof result?.then === 'function') result.then(undefined, (err) => this.#report(err))
  }

  #answer (number, flags, bytes, sender, call) {
    let handler = this.#byNumber[number]
    if (handler === undefined) handler = this.#handlerOf(number).handler
    const to = -1 - (sender & 0xffff)
    if (handler === undefined) {
      this.#send(to, KIND.answer, FAILED | MISSING, number, call, undefined)
      return
    }
    try {
      const value = handler(decode(flags, bytes), whoIs(sender))
      if (typeof value?.then !== 'function') this.#give(to, number, call, value)
      else value.then((later) => this.#give(to, number, call, later)).catch((err) => this.#giveError(to, number, call, err))
    } catch (err) {
      this.#giveError(to, number, call, err)
    }
  }

  #give (to, number, call, value) {
    const { as, bytes } = encode(value)
    this.#check(this.#send(to, KIND.answer, as, number, call, bytes), this.#names[number])
  }

  #giveError (to, number, call, err) {
    const { as, bytes } = describeError(err)
    if (this.#send(to, KIND.answer, as | FAILED, number, call, bytes) < 0) this.lost++
  }

  #settle (id, flags, bytes) {
    const call = this.#calls.get(id)
    if (call === undefined) return // it was given up
    if (flags & MISSING) {
      this.#reject(id, 'ERR_MILLRACE_NO_HANDLER', `The thread has no handler for ${show(call.name)}.`)
      return
    }
    this.#calls.delete(id)
    try {
      const value = decode(flags & 7, bytes)
      if (flags & FAILED) call.reject(rebuildError(value))
      else call.resolve(value)
    } catch (err) {
      call.reject(err)
    }
  }

  // There is nobody whom an error in a handler of posts could be given to.
  #report (err) {
    console.error('millrace: a message handler failed:', err)
  }
}

function whoIs (sender) {
  const thread = (sender >>> 16) - 1
  return { from: thread < 0 ? MAIN : thread }
}

exports.Office = Office
exports.checkName = checkName
exports.checkHandler = checkHandler
exports.MAIN = MAIN
exports.CALL_TIMEOUT_MS = CALL_TIMEOUT_MS
