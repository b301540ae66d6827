'use strict'
// The request as handlers see it: a lazy view. Everything derives from the primitives that an
// engine's subclass implements (symbols.js); nothing is computed, decoded or copied before it is
// read, and all of it stays readable for as long as the object is held.

const { inspect } = require('node:util')
const {
  kMethod, kTarget, kMinor, kRawHeaders, kParams, kAddress, kBody, kAlive, kOnGone, kMore
} = require('./symbols')
const { clientFault } = require('./errors')
const { splitTarget } = require('./target')
const { fieldValue, headersOf, put } = require('./joined')

// Derived values, remembered; made with the first of them.
class More {
  constructor () {
    this.url = undefined
    this.parts = undefined
    this.query = undefined
    this.params = undefined
    this.rawHeaders = undefined
    this.headers = undefined
    this.address = undefined
    this.controller = undefined
  }
}

function moreOf (req) {
  return req[kMore] ?? (req[kMore] = new More())
}

function partsOf (req) {
  const more = moreOf(req)
  return more.parts ?? (more.parts = splitTarget(req.url))
}

function addressOf (req) {
  const more = moreOf(req)
  return more.address ?? (more.address = req[kAddress]())
}

function decodeParams (flat) {
  const params = {}
  for (let i = 0; i < flat.length; i += 2) {
    const raw = flat[i + 1]
    put(params, flat[i], raw.includes('%') ? decodeURIComponent(raw) : raw)
  }
  return params
}

function watch (req) {
  const controller = new AbortController()
  if (!req[kAlive]()) controller.abort()
  else req[kOnGone](() => controller.abort())
  return controller
}

function urlOf (req) {
  const { path, search, authority } = partsOf(req)
  const rest = path.startsWith('/') ? path + search : '/'
  const url = `${req.protocol}://${authority || req.host || 'localhost'}${rest}`
  return URL.canParse(url) ? url : `${req.protocol}://localhost${rest}`
}

function pairsOf (raw) {
  const pairs = []
  for (let i = 0; i < raw.length; i += 2) pairs.push([raw[i], raw[i + 1]])
  return pairs
}

class MillraceRequest {
  constructor () {
    this[kMore] = null
  }

  get method () {
    return this[kMethod]()
  }

  get url () {
    const more = moreOf(this)
    return more.url ?? (more.url = this[kTarget]())
  }

  get path () {
    return partsOf(this).path
  }

  get search () {
    return partsOf(this).search
  }

  get query () {
    const more = moreOf(this)
    return more.query ?? (more.query = new URLSearchParams(this.search))
  }

  get params () {
    const more = moreOf(this)
    return more.params ?? (more.params = decodeParams(this[kParams]()))
  }

  get rawHeaders () {
    const more = moreOf(this)
    return more.rawHeaders ?? (more.rawHeaders = this[kRawHeaders]())
  }

  get headers () {
    const more = moreOf(this)
    return more.headers ?? (more.headers = headersOf(this.rawHeaders))
  }

  header (name) {
    return fieldValue(this.rawHeaders, String(name).toLowerCase())
  }

  get httpVersion () {
    return this[kMinor]() === 0 ? '1.0' : '1.1'
  }

  get ip () {
    const { ip } = addressOf(this)
    return ip.startsWith('::ffff:') && ip.includes('.') ? ip.slice(7) : ip
  }

  get port () {
    return addressOf(this).port
  }

  get secure () {
    return false
  }

  get protocol () {
    return this.secure ? 'https' : 'http'
  }

  get host () {
    return partsOf(this).authority || this.header('host') || ''
  }

  get aborted () {
    return !this[kAlive]()
  }

  get signal () {
    const more = moreOf(this)
    return (more.controller ?? (more.controller = watch(this))).signal
  }

  async text () {
    const text = this[kBody]().toString('utf8')
    return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text
  }

  async json () {
    const text = await this.text()
    try {
      return JSON.parse(text)
    } catch (err) {
      throw clientFault('ERR_MILLRACE_BAD_JSON', 400, `The request's body is not JSON: ${err.message}.`, err)
    }
  }

  async bytes () {
    return this[kBody]()
  }

  async arrayBuffer () {
    const body = this[kBody]()
    const copy = new ArrayBuffer(body.byteLength)
    new Uint8Array(copy).set(body)
    return copy
  }

  async * [Symbol.asyncIterator] () {
    const body = this[kBody]()
    if (body.length > 0) yield body
  }

  stream () {
    const { Readable } = require('node:stream')
    const body = this[kBody]()
    return new Readable({
      read () {
        if (body.length > 0) this.push(body)
        this.push(null)
      }
    })
  }

  web () {
    const { method } = this
    const hasBody = method !== 'GET' && method !== 'HEAD' && this[kBody]().length > 0
    return new Request(urlOf(this), {
      method,
      headers: new Headers(pairsOf(this.rawHeaders)),
      body: hasBody ? this[kBody]() : undefined,
      signal: this.signal
    })
  }

  [inspect.custom] (depth, options) {
    return `MillraceRequest ${inspect({ method: this.method, url: this.url, params: this.params, headers: this.headers }, options)}`
  }
}

exports.MillraceRequest = MillraceRequest
