'use strict'
// The batch loop: requests come up from the core as records in shared memory, once per loop turn, and
// answers go down as records. The layout of both is in src/binding/rings.h.

const { MillraceRequest } = require('./request')
const { MillraceResponse } = require('./response')
const { METHODS } = require('./methods')
const { TEXT, JSON_TYPE, BYTES, headText } = require('./head')
const { run } = require('./settle')
const { Body, LOST, contentFault } = require('./body')
const {
  kMethod, kTarget, kMinor, kRawHeaders, kParams, kAddress, kTrust, kBody, kExpects, kAlive, kOnGone, kFinish, kBegin,
  kWrite, kDrained, kEnd, kAbort, kInform, kRequest, kDone, kSent, kStream
} = require('./symbols')

const RECORD_WORDS = 8
const BLOCK_WORDS = 24 // u16 of a head's block before params and fields
const CHUNKS = 64
const RESPONSES_MAX = 2048
const OUTPUT_BYTES = 256 * 1024
const COPY_MAX = 16 * 1024 // longer content goes down by reference, in a call of its own
const LOOP_MAX = 48 // shorter texts are written char by char: cheaper than a call

const HEAD_INLINE = 1 << 16
const HAS_DATE = 2 << 16
const HAS_LENGTH = 4 << 16
const CLOSE = 8 << 16
const STREAM = 16 << 16
const KIND = { write: 0x10000000, finish: 0x20000000, abort: 0x30000000, inform: 0x40000000, ask: 0x50000000 }

const CONTENT = 0xfffffffe // in place of a handler: a piece of content
const IS_INLINE = 0x200
const IS_ALONE = 0x400 // in an ArrayBuffer of its own
const WILL_FOLLOW = 0x800
const IS_END = 0x1000
const IS_TRAILERS = 0x2000
const EXPECTS = 0x4000

const NOTE = { lost: 0, answered: 1, drained: 2, peerEnded: 8 } // the others: what ended the content
const WINDOW_BYTES = 128 * 1024 // asked for at first where the client waits for a 100 (Continue)
const CHECK_AFTER = 64 * 1024 // written bytes before the core is asked how many wait
const SLOW_BYTES = 1024 * 1024 // waiting bytes that make a client slow, unless limits say less

// By the core's numbers; 0 is a method that it has no number for.
const METHOD_NAMES = ['', ...METHODS.slice(0, 7), 'CONNECT', ...METHODS.slice(7)]

const REGISTERED_MAX = 4096 // heads that the core keeps for a server; others go along each time
const NOTHING = Buffer.alloc(0)

// How much of the client is left.
const THERE = 0
const HALF_GONE = 1 // it closed its side
const GONE = 2
const ENDINGS = [GONE, THERE, HALF_GONE] // by what the core says of an exchange

const kDriver = Symbol('driver')
const kChunk = Symbol('chunk')
const kBlock = Symbol('block')
const kFlags = Symbol('flags')
const kLength = Symbol('length')
const kContent = Symbol('content')
const kEntry = Symbol('entry')
const kSlot = Symbol('slot')
const kGeneration = Symbol('generation')
const kSeq = Symbol('seq')
const kBatch = Symbol('batch')
const kResponse = Symbol('response')
const kEnding = Symbol('ending')
const kOwner = Symbol('owner')

// One ArrayBuffer that heads lie in. Request objects hold it; the core replaces it when it is full.
class Chunk {
  constructor (memory) {
    this.bytes = Buffer.from(memory)
    this.words = new Uint16Array(memory)
  }
}

// The field lines of a trailer section, flat.
function trailersOf (text) {
  const flat = []
  for (const line of text.split('\r\n')) {
    const colon = line.indexOf(':')
    if (colon > 0) flat.push(line.slice(0, colon), line.slice(colon + 1).replace(/^[ \t]+|[ \t]+$/g, ''))
  }
  return flat
}

// Where the octets of a request's head begin in its chunk.
function octetsOf (req) {
  return req[kBlock] + req[kChunk].words[(req[kBlock] >> 1) + 1]
}

// A span of the head, named by the block's word that holds its offset.
function spanOf (req, word) {
  const { words, bytes } = req[kChunk]
  const at = (req[kBlock] >> 1) + word
  const start = octetsOf(req) + words[at]
  return bytes.latin1Slice(start, start + words[at + 1])
}

function ipOf (bytes, family) {
  if (family === 4) return `${bytes[0]}.${bytes[1]}.${bytes[2]}.${bytes[3]}`
  if (family !== 6) return ''
  const groups = []
  for (let i = 0; i < 16; i += 2) groups.push((bytes[i] << 8 | bytes[i + 1]).toString(16))
  return new URL(`http://[${groups.join(':')}]`).hostname.slice(1, -1) // the shortest form
}

// Whether all of the answer is given.
function isWhole (res) {
  return res[kSent] && (res[kStream] === null || res[kStream].isEnded)
}

class NativeRequest extends MillraceRequest {
  constructor (driver, entry, chunk, records, at) {
    super()
    this[kDriver] = driver
    this[kEntry] = entry
    this[kChunk] = chunk
    this[kSlot] = records[at]
    this[kGeneration] = records[at + 1]
    this[kSeq] = records[at + 2]
    this[kFlags] = records[at + 4]
    this[kBlock] = records[at + 6]
    this[kLength] = records[at + 7]
    this[kBatch] = driver.batch
    this[kContent] = null
    this[kResponse] = null
    this[kEnding] = THERE
  }

  [kMethod] () {
    return METHOD_NAMES[this[kFlags] & 0xff] || spanOf(this, 2)
  }

  [kMinor] () {
    return this[kFlags] >> 8 & 1
  }

  [kTarget] () {
    return spanOf(this, 4)
  }

  [kRawHeaders] () {
    const { words, bytes } = this[kChunk]
    const block = this[kBlock] >> 1
    const start = octetsOf(this)
    const head = bytes.latin1Slice(start, start + words[block + 14])
    const count = words[block]
    const raw = new Array(count * 2)
    for (let i = 0, at = block + BLOCK_WORDS + words[block + 15] * 2; i < count; i++, at += 4) {
      raw[i * 2] = head.slice(words[at], words[at] + words[at + 1])
      raw[i * 2 + 1] = head.slice(words[at + 2], words[at + 2] + words[at + 3])
    }
    return raw
  }

  // Without making strings of the other fields. A field that comes twice is for the general form.
  header (name) {
    const lower = String(name).toLowerCase()
    const { words, bytes } = this[kChunk]
    const block = this[kBlock] >> 1
    const start = octetsOf(this)
    let found = -1
    for (let i = words[block], at = block + BLOCK_WORDS + words[block + 15] * 2; i > 0; i--, at += 4) {
      if (words[at + 1] !== lower.length) continue
      const from = start + words[at]
      if (bytes.latin1Slice(from, from + lower.length).toLowerCase() !== lower) continue
      if (found >= 0) return super.header(lower)
      found = at
    }
    if (found < 0) return undefined
    return bytes.latin1Slice(start + words[found + 2], start + words[found + 2] + words[found + 3])
  }

  [kParams] () {
    const { words } = this[kChunk]
    const block = this[kBlock] >> 1
    const path = spanOf(this, 6) || '/'
    const names = this[kEntry] === null ? [] : this[kEntry].params
    const flat = []
    for (let i = 0, at = block + BLOCK_WORDS; i < names.length; i++, at += 2) {
      flat.push(names[i], path.slice(words[at], words[at] + words[at + 1]))
    }
    return flat
  }

  [kAddress] () {
    const { words, bytes } = this[kChunk]
    const block = this[kBlock] >> 1
    return { ip: ipOf(bytes.subarray(this[kBlock] + 32, this[kBlock] + 48), words[block + 13]), port: words[block + 12] }
  }

  [kBody] () {
    return this[kContent] ?? (this[kContent] = Body.of(this.#copyBody()))
  }

  [kTrust] () {
    return this[kDriver].trust
  }

  [kExpects] () {
    return (this[kFlags] & EXPECTS) !== 0
  }

  // The content follows by pieces.
  receive () {
    const driver = this[kDriver]
    this[kContent] = new Body({
      start: () => { if (this[kExpects]()) driver.ask(this, WINDOW_BYTES) },
      take: (bytes) => driver.ask(this, bytes)
    })
  }

  // A copy, since what a program gets hold of it may transfer, and the chunk is shared with the core.
  #copyBody () {
    if ((this[kFlags] & IS_INLINE) === 0) return NOTHING
    const start = octetsOf(this) + this[kChunk].words[(this[kBlock] >> 1) + 14]
    return Buffer.from(this[kChunk].bytes.subarray(start, start + this[kLength]))
  }

  // Within the batch that brought it, a request is alive without asking.
  [kAlive] () {
    if (this[kEnding] !== THERE) return false
    if (isWhole(this[kResponse]) || this[kBatch] === this[kDriver].batch) return true
    this[kEnding] = ENDINGS[this[kDriver].isWaiting(this)]
    return this[kEnding] === THERE
  }

  [kOnGone] (callback) {
    this[kDriver].watch(this, callback)
  }
}

class NativeResponse extends MillraceResponse {
  constructor (req) {
    super()
    this[kOwner] = req
    req[kResponse] = this
  }

  [kRequest] () {
    return this[kOwner]
  }

  // A stream is sent already, and still has to know.
  [kAlive] () {
    const req = this[kOwner]
    if (req[kEnding] === GONE) return false
    if (isWhole(this)) return true // not ours to know
    if (req[kBatch] === req[kDriver].batch) return true
    req[kEnding] = ENDINGS[req[kDriver].isWaiting(req)]
    return req[kEnding] !== GONE
  }

  get finished () {
    const promise = super.finished
    this[kOwner][kDriver].watch(this[kOwner], null)
    return promise
  }

  [kFinish] (status, fields, body, ending) {
    this[kOwner][kDriver].answer(this[kOwner], 0, status, fields, body, ending)
  }

  [kBegin] (status, fields, ending) {
    this[kOwner][kDriver].answer(this[kOwner], STREAM, status, fields, null, ending)
  }

  [kWrite] (chunk) {
    const req = this[kOwner]
    const driver = req[kDriver]
    const stream = this[kStream]
    stream.queued += driver.put(req, KIND.write, chunk)
    if (stream.queued < driver.checkAfter) return true
    stream.queued = driver.queuedBytes(req)
    stream.isSlow = stream.queued >= driver.slowBytes
    return !stream.isSlow
  }

  [kDrained] () {
    const stream = this[kStream]
    if (stream === null || !stream.isSlow) return Promise.resolve(true)
    return new Promise((resolve) => this[kOwner][kDriver].watchDrain(this[kOwner], (isThere) => {
      stream.isSlow = false
      stream.queued = 0
      resolve(isThere)
    }))
  }

  [kEnd] (trailers) {
    this[kOwner][kDriver].put(this[kOwner], KIND.finish, fieldText(trailers))
  }

  [kAbort] () {
    this[kOwner][kDriver].put(this[kOwner], KIND.abort, null)
  }

  [kInform] (status, fields) {
    this[kOwner][kDriver].put(this[kOwner], KIND.inform | status, fieldText(fields))
  }
}

// Field lines; one char is one octet, so they go down as latin1 bytes.
function fieldText (flat) {
  let text = ''
  for (let i = 0; i < flat.length; i += 2) text += `${flat[i]}: ${flat[i + 1]}\r\n`
  return text === '' ? null : Buffer.from(text, 'latin1')
}

// One server's side of the rings.
class Dispatcher {
  constructor (binding, isolation) {
    this.binding = binding
    this.isolation = isolation
    this.handle = null
    this.batch = 1 // odd between batches, even within one
    this.isClosed = false
    this.chunk = null
    this.chunkSerial = 0xffffffff
    this.before = null // { table, count }: what waiting requests were matched by, while there are any
    this.table = null // in force: { app, entries, step }
    this.slowBytes = SLOW_BYTES
    this.checkAfter = CHECK_AFTER
    this.receiving = new Map() // slot -> request whose content is still coming
    this.watched = new Map() // 'slot generation seq' -> { req, callbacks, drains }
    this.trust = null // which proxies are believed (forwarded.js)
    this.registered = 0
    this.replies = new WeakMap() // field array -> { status, number }
    this.onDrained = null
    this.onBatch = this.onBatch.bind(this)
  }

  open (handle) {
    this.handle = handle
    this.requests = new Uint32Array(handle.requests)
    this.responses = new Uint32Array(handle.responses)
    this.control = new Uint32Array(handle.control)
    this.output = Buffer.from(handle.output)
    this.record = new Uint32Array(RECORD_WORDS)
    this.recordBytes = new Uint8Array(this.record.buffer)
    for (const fields of [TEXT, JSON_TYPE, BYTES]) this.#register(200, fields)
    this.textReply = this.replies.get(TEXT).number
  }

  limit (outgoingBytes) {
    this.slowBytes = Math.min(SLOW_BYTES, outgoingBytes)
    this.checkAfter = Math.min(CHECK_AFTER, this.slowBytes)
  }

  // Requests are answered by this table from now on; those under way finish by theirs.
  // waiting: how many requests wait that were matched by the table before.
  use (app, entries, waiting) {
    if (waiting > 0) this.before ??= { table: this.table, count: waiting }
    this.table = { app, entries, step: (fn, req, res) => run(app, fn, req, res) }
  }

  // ---- up ----

  onBatch (count, notes, isDrained) {
    const { requests, isolation, before } = this
    const waiting = before === null ? 0 : before.count
    const now = this.table // those that a handler changes hold from the next batch on
    let table = before?.table
    this.before = null
    this.batch++
    for (let i = 0, at = 0; i < count; i++, at += RECORD_WORDS) {
      if (i === waiting) table = now
      const { entries, app, step } = table
      const index = requests[at + 3]
      if (requests[at + 5] !== this.chunkSerial) this.#takeChunk(requests[at + 5])
      if (index === CONTENT) {
        this.#takeContent(i, at)
        continue
      }
      const entry = index < entries.length ? entries[index] : null
      const fn = entry === null ? app.handler : entry.fn
      const req = new NativeRequest(this, entry, this.chunk, requests, at)
      if ((req[kFlags] & (IS_ALONE | WILL_FOLLOW)) !== 0) this.#prepareBody(req, i)
      const res = new NativeResponse(req)
      isolation.call(step, fn, req, res)
    }
    if (notes !== undefined) this.#takeNotes(new Uint32Array(notes))
    this.batch++
    if (isDrained) this.onDrained?.()
  }

  #takeChunk (serial) {
    const slot = serial % CHUNKS
    this.chunk = new Chunk(this.handle.chunks[slot])
    this.chunkSerial = serial
    this.handle.chunks[slot] = undefined
  }

  #takeBody (i) {
    const body = Buffer.from(this.handle.bodies[i])
    this.handle.bodies[i] = undefined
    return body
  }

  #prepareBody (req, i) {
    if ((req[kFlags] & IS_ALONE) !== 0) {
      req[kContent] = Body.of(this.#takeBody(i))
      return
    }
    req.receive()
    // A new request on the connection: the content of the one before will not come.
    this.receiving.get(req[kSlot])?.[kContent].fail(contentFault(LOST.unread))
    this.receiving.set(req[kSlot], req)
  }

  #receiver (slot, generation, seq) {
    const req = this.receiving.get(slot)
    return req !== undefined && req[kGeneration] === generation && req[kSeq] === seq ? req : undefined
  }

  #takeContent (i, at) {
    const { requests, chunk } = this
    const flags = requests[at + 4]
    const start = requests[at + 6]
    const end = start + requests[at + 7]
    const piece = (flags & IS_ALONE) !== 0 ? this.#takeBody(i) : chunk.bytes.subarray(start, end)
    const req = this.#receiver(requests[at], requests[at + 1], requests[at + 2])
    if (req === undefined) return
    const body = req[kContent]
    if ((flags & IS_TRAILERS) !== 0) {
      body.trailers = trailersOf(piece.latin1Slice())
      return
    }
    body.push((flags & IS_ALONE) !== 0 ? piece : Buffer.from(piece))
    if ((flags & IS_END) === 0) return
    body.end()
    this.receiving.delete(requests[at])
  }

  // ---- down ----

  answer (req, kind, status, fields, body, ending) {
    if (this.isClosed) return
    let word = kind | (ending.close ? CLOSE : 0)
    let reply = this.textReply
    let head = ''
    if (fields !== TEXT || status !== 200 || ending.length >= 0) {
      reply = ending.length < 0 ? this.#replyFor(status, fields, ending) : -1
      if (reply < 0) {
        head = headText(status, fields)
        if (ending.length >= 0) head += `Content-Length: ${ending.length}\r\n`
        word |= HEAD_INLINE | status | (ending.hasDate ? HAS_DATE : 0) | (ending.length >= 0 ? HAS_LENGTH : 0)
      }
    }
    const most = mostBytes(body)
    if (most > COPY_MAX * 3 || head.length > COPY_MAX) this.#putByCall(req, word, reply, head, body)
    else this.#putByRing(req, word, reply, head, body, most)
  }

  // A piece of a stream, its end, an interim answer. Returns how many bytes that may be, at most.
  put (req, word, body) {
    if (this.isClosed) return 0
    const most = mostBytes(body)
    if (most > COPY_MAX * 3) this.#putByCall(req, word, 0, '', body)
    else this.#putByRing(req, word, 0, '', body, most)
    return most
  }

  ask (req, bytes) {
    if (this.isClosed) return
    this.#putByRing(req, KIND.ask, 0, '', null, 0)
    this.responses[(this.control[0] - 1) * RECORD_WORDS + 7] = bytes
  }

  #putByRing (req, word, reply, head, body, most) {
    const { control, output, responses } = this
    if (control[0] === RESPONSES_MAX || control[1] + head.length + most > OUTPUT_BYTES) this.binding.drain(this.handle)
    const start = control[1]
    let end = start
    if (head !== '') end += output.latin1Write(head, end)
    const bodyAt = end
    if (typeof body === 'string') end += this.#write(body, end)
    else if (body !== null) {
      output.set(body, end)
      end += body.byteLength
    }
    const at = control[0] * RECORD_WORDS
    responses[at] = req[kSlot]
    responses[at + 1] = req[kGeneration]
    responses[at + 2] = req[kSeq]
    responses[at + 3] = word
    responses[at + 4] = reply
    responses[at + 5] = start
    responses[at + 6] = bodyAt - start
    responses[at + 7] = end - bodyAt
    control[0]++
    control[1] = end
  }

  // Returns the octets of the text in UTF-8.
  #write (text, at) {
    const { output } = this
    const { length } = text
    if (length <= LOOP_MAX) {
      let i = 0
      for (; i < length; i++) {
        const code = text.charCodeAt(i)
        if (code > 0x7f) break
        output[at + i] = code
      }
      if (i === length) return length
    }
    return output.utf8Write(text, at)
  }

  // What is in the ring goes first: an interim answer, or pieces of the same stream.
  #putByCall (req, word, reply, head, body) {
    const { record } = this
    if (this.control[0] > 0) this.binding.drain(this.handle)
    record[0] = req[kSlot]
    record[1] = req[kGeneration]
    record[2] = req[kSeq]
    record[3] = word
    record[4] = reply
    const bytes = typeof body === 'string' ? Buffer.from(body) : body
    this.binding.send(this.handle, this.recordBytes, head === '' ? null : Buffer.from(head, 'latin1'), bytes)
  }

  // ---- heads that the core keeps ----

  // The number of a head that is known to stay the same, or -1.
  #replyFor (status, fields, ending) {
    const known = this.replies.get(fields)
    if (known !== undefined) return known.status === status ? known.number : -1
    if (!Object.isFrozen(fields) || fields.length === 0) return -1
    return this.#register(status, fields, ending.hasDate)
  }

  #register (status, fields, hasDate = false) {
    let number = -1
    // A program that makes a template for each request must not use up the core's table.
    if (this.registered >= REGISTERED_MAX) return number
    try {
      this.registered++
      number = this.addReply(status, hasDate, headText(status, fields), null, 0, null)
    } catch {
      // No room for more: such answers carry their head along.
    }
    this.replies.set(fields, { status, number })
    return number
  }

  addReply (status, hasDate, head, body, escape, parts) {
    return this.binding.addReply(this.handle, status, hasDate ? 1 : 0, Buffer.from(head, 'latin1'), body, escape, parts)
  }

  // ---- ends ----

  isWaiting (req) {
    return this.isClosed ? 0 : this.binding.isWaiting(this.handle, req[kSlot], req[kGeneration], req[kSeq])
  }

  // The row of an exchange whose end is to be told, or undefined when it is over.
  #row (req) {
    const key = `${req[kSlot]} ${req[kGeneration]} ${req[kSeq]}`
    let row = this.watched.get(key)
    if (row === undefined && !this.isClosed && this.binding.watch(this.handle, req[kSlot], req[kGeneration], req[kSeq])) {
      row = { req, callbacks: [], drains: [] }
      this.watched.set(key, row)
    }
    return row
  }

  watch (req, callback) {
    const row = this.#row(req)
    if (row === undefined) this.#end(req, isWhole(req[kResponse]) && req[kEnding] !== GONE, callback)
    else if (callback !== null) row.callbacks.push(callback)
  }

  // callback(true) when what was written has left, callback(false) when the client went.
  watchDrain (req, callback) {
    const row = this.#row(req)
    if (row === undefined || !this.binding.watchDrain(this.handle, req[kSlot], req[kGeneration], req[kSeq])) callback(false)
    else row.drains.push(callback)
  }

  queuedBytes (req) {
    return this.isClosed ? 0 : this.binding.queuedBytes(this.handle, req[kSlot], req[kGeneration], req[kSeq])
  }

  #end (req, isAnswered, callback) {
    if (!isAnswered) {
      req[kEnding] = GONE
      if (callback !== null) callback()
    }
    req[kResponse][kDone](isAnswered)
  }

  #takeNotes (words) {
    for (let i = 0; i < words.length; i += 4) {
      const note = words[i + 3]
      if (note > NOTE.drained && note < NOTE.peerEnded) this.#loseContent(words[i], words[i + 1], words[i + 2], note)
      else this.#takeNote(`${words[i]} ${words[i + 1]} ${words[i + 2]}`, note)
    }
  }

  #loseContent (slot, generation, seq, note) {
    const req = this.#receiver(slot, generation, seq)
    if (req === undefined) return
    this.receiving.delete(slot)
    req[kContent].fail(contentFault(note))
  }

  #takeNote (key, note) {
    const row = this.watched.get(key)
    if (row === undefined) return
    if (note === NOTE.drained) {
      for (const callback of row.drains.splice(0)) callback(true)
      return
    }
    if (note === NOTE.peerEnded) {
      row.req[kEnding] = HALF_GONE
      this.#tellGone(row)
      return
    }
    this.watched.delete(key)
    this.#finishRow(row, note === NOTE.answered)
  }

  #finishRow (row, isAnswered) {
    this.#end(row.req, isAnswered, null)
    for (const callback of row.drains) callback(isAnswered)
    if (!isAnswered) this.#tellGone(row)
  }

  #tellGone (row) {
    for (const callback of row.callbacks.splice(0)) this.isolation.call(guarded, callback)
  }

  // Everything that is still waited for will never come.
  close () {
    this.isClosed = true
    const rows = [...this.watched.values()]
    const requests = [...this.receiving.values()]
    this.watched.clear()
    this.receiving.clear()
    for (const req of requests) req[kContent].fail(contentFault(LOST.aborted))
    for (const row of rows) this.#finishRow(row, false)
  }
}

function mostBytes (body) {
  if (body === null) return 0
  return typeof body === 'string' ? body.length * 3 : body.byteLength
}

// A program's listener that throws is the program's uncaught exception, not the batch's end.
function guarded (callback) {
  try {
    callback()
  } catch (err) {
    process.nextTick(() => { throw err })
  }
}

exports.Dispatcher = Dispatcher
exports.METHOD_NAMES = METHOD_NAMES
