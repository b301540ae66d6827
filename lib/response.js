'use strict'
// The response as handlers see it. It gathers status and fields, checks them, and gives the answer to
// the engine's subclass: whole (kFinish in symbols.js), or as a stream (kBegin, kWrite, kEnd).
//
//   open -> sent          an answer was given; a second one throws
//   open -> streaming -> sent
//   open -> gone          the client left first; answers do nothing and return false

const { inspect } = require('node:util')
const {
  kFinish, kBegin, kWrite, kDrained, kEnd, kAbort, kInform, kRequest, kAlive, kDone, kMore, kStatus, kFields,
  kSent, kStream, kReset, kReply
} = require('./symbols')
const { fault, rangeFault, show, countOf } = require('./errors')
const { TEXT, JSON_TYPE, BYTES, NO_FIELDS, checkStatus, hasNoContent } = require('./head')
const { Fields } = require('./fields')
const { isBytes, toBytes, isJson, toJson } = require('./bodies')
const { Template, render } = require('./reply')

const TYPES = {
  text: 'text/plain; charset=utf-8',
  html: 'text/html; charset=utf-8',
  json: 'application/json',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  csv: 'text/csv; charset=utf-8',
  xml: 'application/xml',
  svg: 'image/svg+xml',
  form: 'application/x-www-form-urlencoded',
  bytes: 'application/octet-stream'
}

const TRAILER_BYTES = 65536 // of the engine: MR_RESPONSE_HEAD_MAX
const PLAIN_ENDING = Object.freeze({ close: false, hasDate: false, length: -1 })

// What is rarely used.
class More {
  constructor () {
    this.outcome = undefined // true: complete, false: the client went; undefined: not known yet
    this.promise = undefined
    this.resolve = undefined
    this.trailers = null // Fields
  }
}

// A streamed answer under way.
class Stream {
  constructor (declared) {
    this.declared = declared // bytes, or -1
    this.written = 0
    this.queued = 0 // bytes that may still wait, as far as the engine knows
    this.isSlow = false
    this.isEnded = false
  }
}

function moreOf (res) {
  return res[kMore] ?? (res[kMore] = new More())
}

function alreadyAnswered () {
  return fault('ERR_MILLRACE_ALREADY_ANSWERED', 'This request has its answer.')
}

function fieldsOf (res) {
  if (res[kSent]) throw alreadyAnswered()
  return res[kFields] ?? (res[kFields] = new Fields())
}

function lengthOf (body) {
  if (body === null) return 0
  return typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength
}

// The length to announce in place of the body's own: only HEAD may have one without a body.
function announced (res, fields, status, body) {
  if (fields.length < 0 || hasNoContent(status)) return -1
  if (body === null && res[kRequest]().method === 'HEAD') return fields.length
  if (fields.length === lengthOf(body)) return -1
  throw fault('ERR_MILLRACE_LENGTH', `Content-Length is ${fields.length}, but the body has ${countOf(lengthOf(body), 'byte')}.`)
}

// What the engine cannot take is no answer: another may be given.
function give (res, status, headers, body, ending) {
  res[kSent] = true
  try {
    res[kFinish](status, headers, body, ending)
  } catch (err) {
    res[kSent] = false
    throw err
  }
  return true
}

// Gives the answer to the engine. `type` is a Content-Type pair for when none was set, or null.
function finish (res, body, type) {
  if (res[kSent]) throw alreadyAnswered()
  if (!res[kAlive]()) return false
  if (hasTrailers(res)) return finishAsStream(res, body, type)
  const status = res[kStatus]
  if (hasNoContent(status)) body = null
  if (res[kFields] !== null) return finishWith(res, res[kFields], status, body, type)
  return give(res, status, body === null || type === null ? NO_FIELDS : type, body, PLAIN_ENDING)
}

function finishWith (res, fields, status, body, type) {
  const isTyped = fields.hasType || body === null || type === null
  const ending = { close: fields.close, hasDate: fields.hasDate, length: announced(res, fields, status, body) }
  return give(res, status, isTyped ? fields.flat : type.concat(fields.flat), body, ending)
}

// ---- streams ----

function begin (res, type) {
  if (res[kSent]) throw alreadyAnswered()
  const status = res[kStatus]
  const fields = res[kFields]
  const isTyped = fields === null ? type === null : fields.hasType || type === null
  const own = fields === null ? NO_FIELDS : fields.flat
  const declared = fields === null || hasNoContent(status) ? -1 : fields.length
  res[kStream] = new Stream(declared)
  res[kSent] = true
  res[kBegin](status, isTyped || hasNoContent(status) ? own : type.concat(own), {
    close: fields !== null && fields.close,
    hasDate: fields !== null && fields.hasDate,
    length: declared
  })
}

// Begins with the first piece, whose kind is the default type.
function writePiece (res, chunk, length) {
  const stream = res[kStream]
  if (length === 0) return true
  if (stream.declared >= 0 && stream.written + length > stream.declared) {
    throw fault('ERR_MILLRACE_LENGTH', `Content-Length is ${stream.declared}, but ${countOf(stream.written + length, 'byte')} came.`)
  }
  stream.written += length
  return res[kWrite](chunk)
}

function pieceOf (chunk) {
  if (typeof chunk === 'string') return chunk
  if (isBytes(chunk)) return toBytes(chunk)
  throw fault('ERR_MILLRACE_BODY_TYPE', `${show(chunk)} cannot be written.`, undefined, 'A piece is a string or bytes.')
}

function endStream (res) {
  const stream = res[kStream]
  stream.isEnded = true
  const isShort = stream.declared >= 0 && stream.written < stream.declared && res[kRequest]().method !== 'HEAD'
  if (!res[kAlive]()) return false
  if (isShort) {
    res[kAbort]()
    throw fault('ERR_MILLRACE_LENGTH', `Content-Length is ${stream.declared}, but only ${countOf(stream.written, 'byte')} came; the connection is closed.`)
  }
  res[kEnd](res[kMore] === null || res[kMore].trailers === null ? NO_FIELDS : res[kMore].trailers.flat)
  return true
}

// Whether there are trailers that can be sent: only the chunked coding has room for them.
function hasTrailers (res) {
  if (res[kMore] === null || res[kMore].trailers === null) return false
  const isSized = res[kFields] !== null && res[kFields].length >= 0
  return !isSized && !hasNoContent(res[kStatus]) && res[kRequest]().httpVersion !== '1.0'
}

function finishAsStream (res, body, type) {
  begin(res, body === null ? null : type)
  if (body !== null) writePiece(res, body, lengthOf(body))
  return endStream(res)
}

// Cuts a stream that cannot go on.
function abort (res) {
  if (res[kStream] === null || res[kStream].isEnded) return
  res[kStream].isEnded = true
  if (res[kAlive]()) res[kAbort]()
}

// Sends by a template, whose field arrays are the same ones every time, so that an engine may know
// them again. What was set on the response itself comes on top.
function finishTemplate (res, template, body, type) {
  if (res[kSent]) throw alreadyAnswered()
  if (!res[kAlive]()) return false
  if (res[kFields] !== null) {
    res[kFields] = res[kFields].over(template.fields)
    res[kStatus] = template.status
    return finish(res, body, type)
  }
  if (hasNoContent(template.status)) body = null
  return give(res, template.status, template.flatFor(body === null ? null : type), body, template.ending)
}

// What a body that needs no waiting is on the wire, given to `done(target, context, body, type)`.
function withBody (done, res, context, body) {
  if (typeof body === 'string') return done(res, context, body, TEXT)
  if (body === undefined || body === null) return done(res, context, null, null)
  if (typeof body === 'object') {
    if (isBytes(body)) return done(res, context, toBytes(body), BYTES)
    if (isJson(body)) return done(res, context, toJson(body), JSON_TYPE)
  }
  throw fault('ERR_MILLRACE_BODY_TYPE', `${show(body)} cannot be sent.`, undefined, 'Give a string, bytes, an object for its JSON, or null; res.json() sends any value as JSON.')
}

function finishPlain (res, context, body, type) {
  return finish(res, body, type)
}

// A reply of reply() sent from a handler: its fields are complete, so no default type is added.
function finishReply (res, descriptor) {
  const body = descriptor.kind === 'fixed' ? descriptor.body : render(descriptor, res[kRequest]())
  return finishTemplate(res, descriptor.template, body, null)
}

// Fields that must be known before the content, and so cannot be trailers (RFC 9110 6.5.1).
const NO_TRAILER = /^(?:content-(?:encoding|range|type)|host|authorization|www-authenticate|cache-control|age|expires|vary|location|retry-after|max-forwards|set-cookie|te|trailer)$/i

function refuseFraming (fields) {
  const isFraming = fields.length >= 0 || fields.close
  const name = fields.flat.find((text, i) => i % 2 === 0 && NO_TRAILER.test(text))
  if (isFraming || name !== undefined) throw fault('ERR_MILLRACE_HEADER', `${name ?? 'A field that frames the message'} cannot be a trailer.`, undefined, 'It has to be known before the content: set it as a header.')
}

// An 'error' event that nobody listens to ends the process; a stream that a program only pipes into
// says it here instead.
function guard (writable, res) {
  writable.on('error', (err) => {
    if (writable.listenerCount('error') > 1) return
    const { method, url } = res[kRequest]()
    console.error(`millrace: the stream of the answer failed on ${method} ${url}: ${err?.stack ?? inspect(err)}`)
  })
}

// Writes, and waits for as long as the client needs. False: the client went.
async function writeTo (res, chunk) {
  if (res.write(chunk)) return true
  return res[kAlive]() && await res.drained()
}

class MillraceResponse {
  constructor () {
    this[kStatus] = 200
    this[kSent] = false
    this[kStream] = null
    this[kFields] = null
    this[kMore] = null
  }

  status (status) {
    checkStatus(status)
    if (this[kSent]) throw alreadyAnswered()
    this[kStatus] = status
    return this
  }

  header (name, value) {
    fieldsOf(this).set(name, value)
    return this
  }

  headers (headers) {
    fieldsOf(this).apply(headers)
    return this
  }

  type (type) {
    const full = Object.hasOwn(TYPES, type) ? TYPES[type] : type
    if (typeof full !== 'string' || !full.includes('/')) {
      throw fault('ERR_MILLRACE_HEADER', `${show(type)} is neither a content type nor one of ${Object.keys(TYPES).join(', ')}.`, undefined, '')
    }
    return this.header('Content-Type', full)
  }

  send (body) {
    if (typeof body === 'string') return finish(this, body, TEXT)
    return withBody(finishPlain, this, null, body)
  }

  // A piece of a streamed answer. False: the client is slow; wait for drained().
  write (chunk) {
    const piece = pieceOf(chunk)
    if (this[kStream] === null ? this[kSent] : this[kStream].isEnded) throw alreadyAnswered()
    if (!this[kAlive]()) return false
    if (this[kStream] === null) begin(this, typeof piece === 'string' ? TEXT : BYTES)
    return writePiece(this, piece, lengthOf(piece))
  }

  // Resolves to true when what was written has left, to false when the client went.
  drained () {
    return this[kAlive]() ? this[kDrained]() : Promise.resolve(false)
  }

  end (chunk) {
    if (this[kStream] === null) return this.send(chunk)
    if (this[kStream].isEnded) throw alreadyAnswered()
    if (chunk !== undefined && chunk !== null) this.write(chunk)
    return endStream(this)
  }

  stream () {
    const { Writable } = require('node:stream')
    const res = this
    const writable = new Writable({
      write (chunk, encoding, done) {
        writeTo(res, chunk).then((isThere) => {
          if (!isThere) this.destroy()
          done()
        }, done)
      },
      final (done) {
        try {
          if (res[kStream] === null) res.send(null)
          else endStream(res)
          done()
        } catch (err) {
          done(err)
        }
      },
      destroy (err, done) {
        abort(res)
        done(err)
      }
    })
    guard(writable, res)
    // The client going is no error of the program; whoever pipes in hears 'close'.
    this.finished.then((isComplete) => { if (!isComplete) writable.destroy() })
    return writable
  }

  // An interim answer: 103 Early Hints tells the client what it will need.
  hints (headers) {
    return this.inform(103, headers)
  }

  inform (status, headers) {
    if (!Number.isInteger(status) || status < 102 || status > 199) {
      throw rangeFault('ERR_MILLRACE_STATUS', `${show(status)} is not the status of an interim answer: 102, 103, up to 199.`, '')
    }
    const fields = new Fields()
    fields.apply(headers)
    if (this[kSent]) throw alreadyAnswered()
    if (!this[kAlive]()) return false
    this[kInform](status, fields.flat)
    return true
  }

  // Fields for behind the content; they need the chunked coding, so HTTP/1.0 clients do not get them.
  trailers (headers) {
    if (this[kStream] === null ? this[kSent] : this[kStream].isEnded) throw alreadyAnswered()
    const fields = new Fields()
    fields.apply(headers)
    refuseFraming(fields)
    const size = fields.flat.reduce((sum, text) => sum + text.length + 2, 0)
    if (size > TRAILER_BYTES) throw fault('ERR_MILLRACE_HEADER', `These trailers have ${size} bytes; ${TRAILER_BYTES} are the most.`, undefined, '')
    moreOf(this).trailers = fields
    return this
  }

  sse (options) {
    return require('./sse').open(this, options)
  }

  json (value) {
    return finish(this, toJson(value), JSON_TYPE)
  }

  redirect (url, status = 302) {
    if (checkStatus(status) < 300 || status > 399 || status === 304) {
      throw fault('ERR_MILLRACE_STATUS', `${status} does not redirect; 301, 302, 303, 307 and 308 do.`, undefined, '')
    }
    // Control characters are left for the check of the value, which refuses them.
    // eslint-disable-next-line no-control-regex
    const location = String(url).toWellFormed().replace(/[^\x00-\x1f\x21-\x7f]+/g, encodeURIComponent)
    fieldsOf(this).set('Location', location)
    this[kStatus] = status
    return finish(this, null, null)
  }

  reply (template, body) {
    if (template instanceof Template) return withBody(finishTemplate, this, template, body)
    const descriptor = template?.[kReply]
    if (descriptor === undefined) {
      throw fault('ERR_MILLRACE_TEMPLATE', `${show(template)} is not a template.`)
    }
    if (body !== undefined) throw fault('ERR_MILLRACE_TEMPLATE', 'A reply has its own body.')
    return finishReply(this, descriptor)
  }

  get sent () {
    return this[kSent]
  }

  get finished () {
    const more = moreOf(this)
    if (more.promise === undefined) {
      more.promise = new Promise((resolve) => { more.resolve = resolve })
      if (more.outcome !== undefined) more.resolve(more.outcome)
      else if (!this[kAlive]()) this[kDone](false)
    }
    return more.promise
  }

  [kDone] (isComplete) {
    const more = moreOf(this)
    if (more.outcome !== undefined) return
    more.outcome = isComplete
    more.resolve?.(isComplete)
  }

  [kReset] (status) {
    if (this[kMore] !== null) this[kMore].trailers = null
    this[kStatus] = status
    this[kFields] = null
  }

  [inspect.custom] (depth, options) {
    return `MillraceResponse ${inspect({ status: this[kStatus], sent: this[kSent], headers: this[kFields]?.flat ?? [] }, options)}`
  }
}

exports.MillraceResponse = MillraceResponse
exports.finish = finish
exports.fieldsOf = fieldsOf
exports.finishReply = finishReply
exports.begin = begin
exports.endStream = endStream
exports.abort = abort
exports.writeTo = writeTo
exports.pieceOf = pieceOf
