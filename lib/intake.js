'use strict'
// The content of one request on node:http: handed to a Body with back-pressure, or read past when
// nobody wants it; in either case within the limits of the native engine (src/engine/content.c).
//
//   open -> over    all of it came, or it failed, or the connection went

const { LOST } = require('./body')

const AHEAD_BYTES = 64 * 1024 // handed up before it is taken; node:http holds as much again
const RATE_PERIOD_MS = 10000 // over which bytesPerSecond is looked at

class Intake {
  #message
  #limits
  #done
  #body = null
  #received = 0
  #ahead = 0 // handed to the body and not taken yet
  #isPumping = false
  #isOver = false
  #timer = null
  #deadlineAt
  #rateAt = Date.now()
  #rateMark = 0
  #waitsSince = 0 // when we began to let the client wait; 0: we do not

  // limits { bytes, bytesPerSecond, ms }: the last two 0 for any.
  // done(0): all of it came; done(reason, status): why it ends here, one of LOST.
  constructor (message, limits, done) {
    this.#message = message
    this.#limits = limits
    this.#done = done
    this.#deadlineAt = limits.ms === 0 ? Infinity : this.#rateAt + limits.ms
  }

  // body: null reads past it.
  start (body) {
    const message = this.#message
    this.#body = body
    message.on('readable', () => this.#pump())
    message.once('end', () => this.#end())
    message.once('close', () => this.fail(LOST.aborted, 0))
    this.#arm()
    this.#pump()
  }

  get isOver () {
    return this.#isOver
  }

  get received () {
    return this.#received
  }

  // The body's reader took this much.
  take (bytes) {
    this.#ahead -= bytes
    this.#pump()
  }

  // Nobody wants the rest any more.
  discard () {
    this.#body = null
    this.#pump()
  }

  fail (reason, status) {
    if (this.#isOver) return
    this.#close()
    this.#done(reason, status)
  }

  #end () {
    if (this.#isOver) return
    this.#close()
    if (this.#body !== null) {
      const { rawTrailers } = this.#message
      if (rawTrailers.length > 0) this.#body.trailers = rawTrailers
      this.#body.end()
    }
    this.#done(0, 0)
  }

  #close () {
    this.#isOver = true
    clearTimeout(this.#timer)
  }

  #isFull () {
    return this.#body !== null && this.#ahead >= AHEAD_BYTES
  }

  // Again from within, by way of take(): the outer call goes on.
  #pump () {
    if (this.#isPumping) return
    this.#isPumping = true
    while (!this.#isOver && !this.#isFull()) {
      const chunk = this.#message.read()
      if (chunk === null) break
      this.#give(chunk)
    }
    this.#isPumping = false
    if (!this.#isOver) this.#watchClock()
  }

  #give (chunk) {
    this.#received += chunk.length
    if (this.#received > this.#limits.bytes) {
      this.fail(LOST.tooLarge, 413)
      return
    }
    if (this.#body === null) return
    this.#ahead += chunk.length
    this.#body.push(chunk)
  }

  // Time in which we make the client wait is not its own.
  #watchClock () {
    const now = Date.now()
    if (this.#isFull()) {
      if (this.#waitsSince !== 0) return
      this.#waitsSince = now
      clearTimeout(this.#timer)
    } else if (this.#waitsSince !== 0) {
      this.#deadlineAt += now - this.#waitsSince
      this.#waitsSince = 0
      this.#mark(now)
      this.#arm()
    }
  }

  #mark (now) {
    this.#rateAt = now
    this.#rateMark = this.#received
  }

  #arm () {
    const rateAt = this.#limits.bytesPerSecond === 0 ? Infinity : this.#rateAt + RATE_PERIOD_MS
    const at = Math.min(rateAt, this.#deadlineAt)
    if (at === Infinity) return
    this.#timer = setTimeout(() => this.#check(), Math.max(1, at - Date.now()))
    this.#timer.unref()
  }

  #check () {
    const now = Date.now()
    const spent = now - this.#rateAt
    const least = this.#limits.bytesPerSecond * spent / 1000
    const isSlow = spent >= RATE_PERIOD_MS && this.#received - this.#rateMark < least
    if (isSlow || now >= this.#deadlineAt) {
      this.fail(LOST.late, 408)
      return
    }
    if (spent >= RATE_PERIOD_MS) this.#mark(now)
    this.#arm()
  }
}

exports.Intake = Intake
