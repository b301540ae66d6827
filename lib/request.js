'use strict'
// The request as handlers see it: a lazy view. Everything derives from the primitives that an
// engine's subclass implements (symbols.js); nothing is computed, decoded or copied before it is
// read, and all of it stays readable for as long as the object is held.

const { inspect } = require('node:util')
const {
  kMethod, kTarget, kMinor, kRawHeaders, kParams, kAddress, kTrust, kBody, kExpects, kAlive, kOnGone, kMore
} = require('./symbols')
const { clientFault } = require('./errors')
const { resolveClient } = require('./forwarded')
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
    this.client = undefined
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

// Who asks, as far as trusted proxies tell: { ip, port, protocol, host }, the last two undefined when
// none does.
function clientOf (req) {
  const more = moreOf(req)
  return more.client ?? (more.client = findClient(req))
}

function findClient (req) {
  const { ip, port } = req[kAddress]()
  const peer = { ip: ip.startsWith('::ffff:') && ip.includes('.') ? ip.slice(7) : ip, port, protocol: undefined, host: undefined }
  const trust = req[kTrust]()
  return trust === null ? peer : resolveClient(trust, peer, req.rawHeaders)
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
  const { path, search } = partsOf(req)
  const rest = path.startsWith('/') ? path + search : '/'
  const url = `${req.protocol}://${req.host || 'localhost'}${rest}`
  return URL.canParse(url) ? url : `${req.protocol}://localhost${rest}`
}

function pairsOf (raw) {
  const pairs = []
  for (let i = 0; i < raw.length; i += 2) pairs.push([raw[i], raw[i + 1]])
  return pairs
}

function hasContent (req) {
  return req.header('transfer-encoding') !== undefined || Number(req.header('content-length') ?? 0) > 0
}

function webStream (body) {
  return new ReadableStream({
    type: 'bytes',
    async pull (controller) {
      const chunk = await body.next()
      // The controller takes the memory over, so it gets its own.
      if (chunk !== null) controller.enqueue(new Uint8Array(chunk))
      else {
        controller.close()
        controller.byobRequest?.respond(0)
      }
    }
  })
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
    return clientOf(this).ip
  }

  get port () {
    return clientOf(this).port
  }

  get secure () {
    return this.protocol === 'https'
  }

  get protocol () {
    return this[kTrust]() === null ? 'http' : clientOf(this).protocol ?? 'http'
  }

  get host () {
    const told = this[kTrust]() === null ? undefined : clientOf(this).host
    return told ?? (partsOf(this).authority || this.header('host') || '')
  }

  get aborted () {
    return !this[kAlive]()
  }

  get signal () {
    const more = moreOf(this)
    return (more.controller ?? (more.controller = watch(this))).signal
  }

  get expectsContinue () {
    return this[kExpects]()
  }

  // Empty before the end of the body.
  get trailers () {
    return headersOf(this[kBody]().trailers ?? [])
  }

  async text () {
    const text = (await this[kBody]().all()).toString('utf8')
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
    return this[kBody]().all()
  }

  async arrayBuffer () {
    const body = await this[kBody]().all()
    const copy = new ArrayBuffer(body.byteLength)
    new Uint8Array(copy).set(body)
    return copy
  }

  async formData () {
    const type = this.header('content-type') ?? ''
    const body = await this[kBody]().all()
    try {
      return await new Response(body, { headers: { 'content-type': type } }).formData()
    } catch (err) {
      throw clientFault('ERR_MILLRACE_BAD_FORM', 400, `The request's body is not a form: ${err.message}.`, err)
    }
  }

  async * [Symbol.asyncIterator] () {
    const body = this[kBody]().reader()
    for (let chunk = await body.next(); chunk !== null; chunk = await body.next()) yield chunk
  }

  stream () {
    const { Readable } = require('node:stream')
    const body = this[kBody]().reader()
    const readable = new Readable({
      read () {
        body.next().then((chunk) => this.push(chunk), (err) => this.destroy(err))
      }
    })
    // As with node:http, a client that goes is an error for those who listen, and no reason to end.
    return readable.on('error', () => {})
  }

  web () {
    const { method } = this
    const hasBody = method !== 'GET' && method !== 'HEAD' && hasContent(this)
    return new Request(urlOf(this), {
      method,
      headers: new Headers(pairsOf(this.rawHeaders)),
      body: hasBody ? webStream(this[kBody]().reader()) : undefined,
      duplex: 'half',
      signal: this.signal
    })
  }

  [inspect.custom] (depth, options) {
    return `MillraceRequest ${inspect({ method: this.method, url: this.url, params: this.params, headers: this.headers }, options)}`
  }
}

exports.MillraceRequest = MillraceRequest
