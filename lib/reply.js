'use strict'
// Answers made once: constants, templates with placeholders, and materialised heads. What comes out
// are plain descriptors that either engine can hold:
//   { kind: 'fixed', status, headers, head, close, hasDate, body, template }
//   { kind: 'template', status, headers, head, close, hasDate, escape, parts, template }
//     headers  [[name, value], ...]      head  status line and fields (headText in head.js)
//     body     Buffer | null             escape  'none' | 'html' | 'json'
//     parts    { literal: Buffer, text } | { param } | { query, fallback } | { header, fallback }
//     template the same head as res.reply() takes it

const { kParams, kReply } = require('./symbols')
const { fault, show, countOf } = require('./errors')
const { TEXT, HTML, JSON_TYPE, BYTES, checkStatus, hasNoContent, headText } = require('./head')
const { Fields, checkName } = require('./fields')
const { isBytes, toBytes, isJson, toJson } = require('./bodies')
const { checkKeys } = require('./keys')
const { requestField } = require('./joined')

const PARTS_MAX = 64 // src/engine/reply.h: MR_REPLY_PARTS_MAX
const ENTITIES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

const ESCAPES = {
  none: (text) => text,
  html: (text) => text.replace(/[&<>"']/g, (char) => ENTITIES[char]),
  json: (text) => JSON.stringify(text)
}

function refuse (detail) {
  return fault('ERR_MILLRACE_TEMPLATE', detail)
}

// ---- heads ----

// A head ready to send: its field arrays are made once per type and never change.
class Template {
  constructor (status, fields) {
    this.status = status
    this.fields = fields
    this.ending = Object.freeze({ close: fields.close, hasDate: fields.hasDate, length: -1 })
    this.flats = new Map() // default type, or null -> flat fields
    Object.freeze(fields.flat)
    Object.freeze(this)
  }

  flatFor (type) {
    if (this.fields.hasType || type === null) return this.fields.flat
    let flat = this.flats.get(type)
    if (flat === undefined) {
      flat = Object.freeze(type.concat(this.fields.flat))
      this.flats.set(type, flat)
    }
    return flat
  }
}

function makeTemplate (status = 200, headers, type) {
  const fields = new Fields()
  fields.apply(headers)
  if (type !== null && !fields.hasType) {
    fields.flat.unshift(...type)
    fields.hasType = true
  }
  return new Template(checkStatus(status), fields)
}

function refuseLength (template, what) {
  if (template.fields.length >= 0) {
    throw fault('ERR_MILLRACE_LENGTH', `The body of ${what} has its own length.`)
  }
}

function checkInit (init, keys, what) {
  if (init === null || typeof init !== 'object' || Array.isArray(init)) {
    throw refuse(`${what} takes an object, not ${show(init)}.`)
  }
  checkKeys(init, keys, `option of ${what} named`, refuse)
}

function template (init = {}) {
  checkInit(init, ['status', 'headers'], 'template()')
  const made = makeTemplate(init.status, init.headers, null)
  refuseLength(made, 'a template')
  return made
}

// ---- descriptors ----

function pairsOf (flat) {
  const pairs = []
  for (let i = 0; i < flat.length; i += 2) pairs.push([flat[i], flat[i + 1]])
  return pairs
}

function describe (kind, made, rest) {
  const { status, fields } = made
  return Object.freeze({
    kind,
    status,
    headers: pairsOf(fields.flat),
    head: headText(status, fields.flat),
    close: fields.close,
    hasDate: fields.hasDate,
    template: made,
    ...rest
  })
}

// What a constant's body is on the wire: { body, type }.
function encodeBody (body) {
  if (body === undefined || body === null) return { body: null, type: null }
  if (typeof body === 'string') return { body: Buffer.from(body), type: TEXT }
  if (isBytes(body)) return { body: Buffer.from(toBytes(body)), type: BYTES } // a copy: constant from here on
  if (typeof body === 'object' && isJson(body)) return { body: Buffer.from(toJson(body)), type: JSON_TYPE }
  throw fault('ERR_MILLRACE_BODY_TYPE', `${show(body)} cannot be the body of a reply.`, undefined, 'Give a string, bytes, or an object for its JSON.')
}

function fixed (status, headers, body, type) {
  const made = makeTemplate(status, headers, body === null || hasNoContent(status) ? null : type)
  if (made.fields.length >= 0 && made.fields.length !== (body === null ? 0 : body.length)) {
    throw fault('ERR_MILLRACE_LENGTH', `Content-Length is ${made.fields.length}, but the body has ${countOf(body === null ? 0 : body.length, 'byte')}.`)
  }
  return describe('fixed', made, { body: hasNoContent(status) ? null : body })
}

// A route's fixed text.
function fixedText (text) {
  return fixed(200, undefined, Buffer.from(text), TEXT)
}

// ---- placeholders ----

class Placeholder {
  constructor (kind, name, fallback) {
    this.kind = kind
    this.name = name
    this.fallback = fallback
    Object.freeze(this)
  }
}

function checkFallback (kind, fallback) {
  if (typeof fallback === 'string') return fallback.toWellFormed()
  throw refuse(`The fallback of ${kind}() is a string, not ${show(fallback)}.`)
}

function param (name) {
  if (typeof name === 'string' && name !== '') return new Placeholder('param', name, '')
  throw refuse(`param() takes the name of a param, not ${show(name)}.`)
}

function query (name, fallback = '') {
  if (typeof name !== 'string') throw refuse(`query() takes a name, not ${show(name)}.`)
  return new Placeholder('query', name, checkFallback('query', fallback))
}

function header (name, fallback = '') {
  return new Placeholder('header', checkName(name).toLowerCase(), checkFallback('header', fallback))
}

// ---- templates ----

// How placeholders are escaped, by the content type in force.
function escapeFor (flat) {
  let type = ''
  for (let i = 0; i < flat.length; i += 2) {
    if (flat[i].toLowerCase() === 'content-type') type = flat[i + 1].split(';', 1)[0].trim().toLowerCase()
  }
  if (type === 'application/json' || type.endsWith('+json')) return 'json'
  return type === 'text/html' || type === 'application/xml' || type === 'text/xml' || type.endsWith('+xml') ? 'html' : 'none'
}

// A value that is known when the template is made becomes text, escaped like a placeholder's.
function literalOf (value, escape) {
  if (escape === 'json') return toJson(value)
  if (typeof value === 'string' || typeof value === 'number') return ESCAPES[escape](String(value).toWellFormed())
  throw refuse(`${show(value)} cannot stand in a reply. Use param(), query(), header(), a string or a number.`)
}

function partOf ({ kind, name, fallback }) {
  return kind === 'param' ? { param: name } : { [kind]: name, fallback }
}

function partsOf (strings, values, escape) {
  const parts = []
  let text = ''
  const flush = () => {
    if (text !== '') parts.push({ literal: Buffer.from(text), text })
    text = ''
  }
  strings.forEach((string, i) => {
    if (string === undefined) throw refuse('The reply has a bad escape sequence.')
    text += string.toWellFormed()
    if (i >= values.length) return
    if (!(values[i] instanceof Placeholder)) {
      text += literalOf(values[i], escape)
      return
    }
    flush()
    parts.push(partOf(values[i]))
  })
  flush()
  return parts
}

function compile (init, type, strings, values) {
  const made = makeTemplate(init.status, init.headers, type)
  if (hasNoContent(made.status)) throw refuse(`A reply with status ${made.status} has no body.`)
  refuseLength(made, 'a template')
  const escape = escapeFor(made.fields.flat)
  const parts = partsOf(strings, values, escape)
  if (parts.length > PARTS_MAX) throw refuse(`A reply has at most ${PARTS_MAX} parts, not ${parts.length}.`)
  if (!parts.some((part) => part.literal === undefined)) {
    return describe('fixed', made, { body: Buffer.concat(parts.map((part) => part.literal)) })
  }
  return describe('template', made, { escape, parts })
}

// ---- the public form ----

class Reply {
  constructor (descriptor) {
    this[kReply] = descriptor
    Object.freeze(this)
  }
}

function isStrings (value) {
  return Array.isArray(value) && Array.isArray(value.raw)
}

// The object form is a constant, and a tag for as long as it was given no body.
function fromInit (init) {
  checkInit(init, ['status', 'headers', 'body'], 'reply()')
  const { status = 200, headers } = init
  const { body, type } = encodeBody(init.body)
  const tag = (strings, ...values) => {
    if (!isStrings(strings)) throw refuse('What reply({ … }) returns is a route, or a tag for a template.')
    if (init.body !== undefined) throw refuse('This reply has a body already.')
    return new Reply(compile({ status, headers }, TEXT, strings, values))
  }
  tag[kReply] = fixed(status, headers, body, type)
  return Object.freeze(tag)
}

function reply (strings, ...values) {
  if (!isStrings(strings)) return fromInit(strings)
  return new Reply(compile({}, TEXT, strings, values))
}

function tagFor (name, type) {
  return (strings, ...values) => {
    if (!isStrings(strings)) throw refuse(`reply.${name} is a tag: reply.${name}\`…\`.`)
    return new Reply(compile({}, type, strings, values))
  }
}

reply.text = tagFor('text', TEXT)
reply.html = tagFor('html', HTML)
reply.json = tagFor('json', JSON_TYPE)

// One of the functions that are meant to stand in front of a template literal, without it.
function isBareTag (value) {
  return value === reply || value === reply.text || value === reply.html || value === reply.json
}

// ---- rendering, where the engine does not do it ----

function paramOf (flat, name) {
  for (let i = 0; i < flat.length; i += 2) {
    if (flat[i] === name) return decodeURIComponent(flat[i + 1])
  }
  return ''
}

function valueOf (part, req) {
  if (part.param !== undefined) return paramOf(req[kParams](), part.param)
  if (part.query !== undefined) return req.query.get(part.query) ?? part.fallback
  return requestField(req, part.header) ?? part.fallback
}

// A template's content for one request.
function render (descriptor, req) {
  const escape = ESCAPES[descriptor.escape]
  let body = ''
  for (const part of descriptor.parts) body += part.literal !== undefined ? part.text : escape(valueOf(part, req))
  return body
}

exports.Template = Template
exports.template = template
exports.reply = reply
exports.isBareTag = isBareTag
exports.param = param
exports.query = query
exports.header = header
exports.fixedText = fixedText
exports.render = render
