'use strict'
// The content of one request on its way to whoever reads it: pieces come in by push(), end() or
// fail() and go out by next() or all(). The engine hears by `source` how much was taken, and lets no
// more come than that; so what waits here is bounded whatever the client sends.

const { fault, clientFault } = require('./errors')

const ASK_AFTER = 64 * 1024 // bytes taken before the engine is told
const NOTHING = Buffer.alloc(0)

// Why the rest of a request's content will not come; the numbers are the core's (mr_note).
const LOST = Object.freeze({ aborted: 3, tooLarge: 4, bad: 5, late: 6, unread: 7 })

function contentFault (reason) {
  switch (reason) {
    case LOST.aborted: return clientFault('ERR_MILLRACE_ABORTED', 400, 'The client went before the body was complete.')
    case LOST.tooLarge: return clientFault('ERR_MILLRACE_BODY_TOO_LARGE', 413, 'The body is larger than the limit.')
    case LOST.bad: return clientFault('ERR_MILLRACE_BAD_BODY', 400, 'The chunked coding of the body is broken.')
    case LOST.late: return clientFault('ERR_MILLRACE_BODY_TIMEOUT', 408, 'The body came too slowly.')
    default: return fault('ERR_MILLRACE_BODY_UNREAD', 'The answer was complete before the body was read.')
  }
}

class Body {
  #chunks = [] // Buffers that nobody else writes to
  #first = 0 // index of the next to go out
  #isEnded = false
  #error = null
  #waiting = null // { resolve, reject } of next()
  #taken = 0 // since the engine was told
  #isStarted = false
  #isIterated = false
  #whole = null // the promise of all()
  #source
  trailers = null // flat [name, value, ...], raw; null before the end, or without any

  // source { start(): somebody reads, take(bytes): this much was taken }, or null: nothing more comes
  constructor (source) {
    this.#source = source
  }

  // A body that is there already; it can be read as often as wanted, in any way.
  static of (bytes) {
    const body = new Body(null)
    body.#whole = Promise.resolve(bytes)
    body.end()
    return body
  }

  get isOpen () {
    return !this.#isEnded && this.#error === null
  }

  push (chunk) {
    if (!this.isOpen || chunk.length === 0) return
    if (this.#waiting === null) {
      this.#chunks.push(chunk)
      return
    }
    const { resolve } = this.#waiting
    this.#waiting = null
    this.#tell(chunk.length)
    resolve(chunk)
  }

  end () {
    if (!this.isOpen) return
    this.#isEnded = true
    this.#waiting?.resolve(null)
    this.#waiting = null
  }

  // What came before is still to be had.
  fail (err) {
    if (!this.isOpen) return
    this.#error = err
    this.#waiting?.reject(err)
    this.#waiting = null
  }

  // The next piece, or null at the end. One call at a time.
  next () {
    this.#start()
    if (this.#first < this.#chunks.length) {
      const chunk = this.#chunks[this.#first]
      this.#chunks[this.#first++] = undefined
      if (this.#first === this.#chunks.length) {
        this.#chunks.length = 0
        this.#first = 0
      }
      this.#tell(chunk.length)
      return Promise.resolve(chunk)
    }
    if (this.#isEnded) return Promise.resolve(null)
    if (this.#error !== null) return Promise.reject(this.#error)
    return new Promise((resolve, reject) => { this.#waiting = { resolve, reject } })
  }

  // All of it, as often as wanted.
  all () {
    if (this.#whole === null) {
      this.#claim()
      this.#whole = this.#collect()
    }
    return this.#whole
  }

  // Pieces for one reader: a second would get what the first left. Of what is there whole, or was
  // asked for whole, everybody gets all.
  reader () {
    if (this.#whole !== null) return readerOf(this.#whole)
    this.#claim()
    return this
  }

  #claim () {
    if (this.#isIterated) throw fault('ERR_MILLRACE_BODY_USED', 'The body of this request was read before.')
    this.#isIterated = true
  }

  async #collect () {
    const chunks = []
    for (let chunk = await this.next(); chunk !== null; chunk = await this.next()) chunks.push(chunk)
    return chunks.length === 1 ? chunks[0] : chunks.length === 0 ? NOTHING : Buffer.concat(chunks)
  }

  #start () {
    if (this.#isStarted) return
    this.#isStarted = true
    if (this.isOpen) this.#source?.start()
  }

  #tell (bytes) {
    this.#taken += bytes
    if (this.#taken < ASK_AFTER || !this.isOpen) return
    this.#source?.take(this.#taken)
    this.#taken = 0
  }
}

function readerOf (whole) {
  let left = whole
  return {
    async next () {
      const bytes = await left
      left = NOTHING
      return bytes.length === 0 ? null : bytes
    }
  }
}

exports.Body = Body
exports.LOST = LOST
exports.contentFault = contentFault
