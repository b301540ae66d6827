'use strict'
// The response as handlers see it. It gathers status and fields, checks them, and gives the whole
// answer to the engine's subclass once (kFinish in symbols.js).
//
//   open -> sent          an answer was given; a second one throws
//   open -> gone          the client left first; answers do nothing and return false

const { inspect } = require('node:util')
const { kFinish, kRequest, kAlive, kDone, kMore, kStatus, kFields, kSent, kReset, kReply } = require('./symbols')
const { fault, show } = require('./errors')
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

const PLAIN_ENDING = Object.freeze({ close: false, hasDate: false, length: -1 })

// What is rarely used.
class More {
  constructor () {
    this.outcome = undefined // true: complete, false: the client went; undefined: not known yet
    this.promise = undefined
    this.resolve = undefined
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
  throw fault('ERR_MILLRACE_LENGTH', `Content-Length is ${fields.length}, but the body has ${lengthOf(body)} bytes.`)
}

// Gives the answer to the engine. `type` is a Content-Type pair for when none was set, or null.
function finish (res, body, type) {
  if (res[kSent]) throw alreadyAnswered()
  if (!res[kAlive]()) return false
  const status = res[kStatus]
  if (hasNoContent(status)) body = null
  if (res[kFields] !== null) return finishWith(res, res[kFields], status, body, type)
  res[kSent] = true
  res[kFinish](status, body === null || type === null ? NO_FIELDS : type, body, PLAIN_ENDING)
  return true
}

function finishWith (res, fields, status, body, type) {
  const isTyped = fields.hasType || body === null || type === null
  const ending = { close: fields.close, hasDate: fields.hasDate, length: announced(res, fields, status, body) }
  res[kSent] = true
  res[kFinish](status, isTyped ? fields.flat : type.concat(fields.flat), body, ending)
  return true
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
  res[kSent] = true
  res[kFinish](template.status, template.flatFor(body === null ? null : type), body, template.ending)
  return true
}

// What a body that needs no waiting is on the wire, given to `done(target, context, body, type)`.
function withBody (done, res, context, body) {
  if (typeof body === 'string') return done(res, context, body, TEXT)
  if (body === undefined || body === null) return done(res, context, null, null)
  if (typeof body === 'object') {
    if (isBytes(body)) return done(res, context, toBytes(body), BYTES)
    if (isJson(body)) return done(res, context, toJson(body), JSON_TYPE)
  }
  throw fault('ERR_MILLRACE_BODY_TYPE', `${show(body)} cannot be sent.`)
}

function finishPlain (res, context, body, type) {
  return finish(res, body, type)
}

// A reply of reply() sent from a handler: its fields are complete, so no default type is added.
function finishReply (res, descriptor) {
  const body = descriptor.kind === 'fixed' ? descriptor.body : render(descriptor, res[kRequest]())
  return finishTemplate(res, descriptor.template, body, null)
}

class MillraceResponse {
  constructor () {
    this[kStatus] = 200
    this[kSent] = false
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
      throw fault('ERR_MILLRACE_HEADER', `${show(type)} is neither a content type nor one of ${Object.keys(TYPES).join(', ')}.`)
    }
    return this.header('Content-Type', full)
  }

  send (body) {
    if (typeof body === 'string') return finish(this, body, TEXT)
    return withBody(finishPlain, this, null, body)
  }

  end (chunk) {
    return this.send(chunk)
  }

  json (value) {
    return finish(this, toJson(value), JSON_TYPE)
  }

  redirect (url, status = 302) {
    if (checkStatus(status) < 300 || status > 399 || status === 304) {
      throw fault('ERR_MILLRACE_STATUS', `${status} does not redirect; 301, 302, 303, 307 and 308 do.`)
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
