'use strict'
// The whole API on node:http, for where the native module cannot run. Bytes on the wire are those of
// the native engine wherever node:http lets them be; what it does not is listed in index.d.ts.
//
// A socket's state: open -> closing (an answer or an error said so; later requests are ignored).

const http = require('node:http')
const {
  kMethod, kTarget, kMinor, kRawHeaders, kParams, kAddress, kBody, kAlive, kOnGone, kFinish, kRequest, kDone
} = require('./symbols')
const { MillraceRequest } = require('./request')
const { MillraceResponse, fieldsOf, finishReply } = require('./response')
const { closes } = require('./fields')
const { MillraceServer } = require('./server')
const { TEXT, headText, reasonOf, hasNoLength } = require('./head')
const { run, plain } = require('./settle')
const { splitTarget } = require('./target')
const { fieldValue } = require('./joined')

const NOTHING = Buffer.alloc(0)

// Symbols of this file: what hangs on the objects of node:http and on ours.
const kState = Symbol('state')
const kMessage = Symbol('message')
const kOut = Symbol('out')
const kEntry = Symbol('entry')
const kRaw = Symbol('raw')
const kContent = Symbol('content')
const kResponse = Symbol('response')
const kOwner = Symbol('owner')
const kGone = Symbol('gone')
const kLeft = Symbol('left')
const kCallbacks = Symbol('callbacks')

// ---- requests and responses ----

class NodeRequest extends MillraceRequest {
  constructor (message, state) {
    super()
    this[kMessage] = message
    this[kState] = state
    this[kEntry] = null
    this[kRaw] = null
    this[kContent] = NOTHING
    this[kResponse] = null
    this[kLeft] = false
    this[kCallbacks] = []
  }

  [kMethod] () { return this[kMessage].method }
  [kTarget] () { return this[kMessage].url }
  [kMinor] () { return this[kMessage].httpVersionMinor === 0 ? 0 : 1 }
  [kRawHeaders] () { return this[kMessage].rawHeaders }
  [kAddress] () { return this[kState].address }
  [kBody] () { return this[kContent] }
  [kAlive] () { return !this[kLeft] }

  [kParams] () {
    return this[kEntry] === null ? [] : this[kEntry].params.flatMap((name, i) => [name, this[kRaw][i]])
  }

  [kOnGone] (callback) {
    this[kCallbacks].push(callback)
  }

  left () {
    if (this[kLeft]) return
    this[kLeft] = true
    for (const callback of this[kCallbacks]) callback()
  }
}

class NodeResponse extends MillraceResponse {
  constructor (out, req, state) {
    super()
    this[kOut] = out
    this[kOwner] = req
    this[kState] = state
    this[kGone] = false
    req[kResponse] = this
  }

  [kAlive] () { return !this[kGone] }
  [kRequest] () { return this[kOwner] }

  [kFinish] (status, headers, body, { close, hasDate, length }) {
    const out = this[kOut]
    const bytes = typeof body === 'string' ? Buffer.from(body) : body
    const flat = headers.slice()
    if (!hasNoLength(status)) flat.push('Content-Length', String(length >= 0 ? length : bytes === null ? 0 : bytes.byteLength))
    if (!hasDate) flat.push('Date', dateText())
    pushConnection(flat, this, close)
    out.sendDate = false
    out.removeHeader('Connection') // else node:http adds lines of its own
    out.writeHead(status, reasonOf(status), flat)
    // Bytes, not a string: node:http would write latin1 header values as UTF-8 in front of one.
    if (bytes === null || bytes.byteLength === 0) out.end()
    else out.end(bytes)
  }

  gone () {
    if (this[kGone]) return
    this[kGone] = true
    this[kDone](false)
    this[kOwner].left()
  }
}

let dateAt = 0
let date = ''

function dateText () {
  const now = Math.floor(Date.now() / 1000)
  if (now !== dateAt) {
    dateAt = now
    date = new Date(now * 1000).toUTCString()
  }
  return date
}

// Whether the client will send nothing more, and this is the last of what it asked.
function isFinal (state, res) {
  return state.hasEnded && [...state.open].at(-1) === res
}

function pushConnection (flat, res, close) {
  const state = res[kState]
  const message = res[kOwner][kMessage]
  const said = fieldValue(message.rawHeaders, 'connection') ?? ''
  const isOld = message.httpVersionMinor === 0
  const wantsKeep = isOld ? /\bkeep-alive\b/i.test(said) : true
  if (close || state.isLast || isFinal(state, res) || state.server.isStopping || !wantsKeep || closes(said)) {
    state.isClosing = true
    flat.push('Connection', 'close')
  } else if (isOld) {
    flat.push('Connection', 'keep-alive')
  }
}

// ---- sockets ----

class SocketState {
  constructor (server, socket) {
    this.server = server
    this.socket = socket
    this.address = { ip: socket.remoteAddress ?? '', port: socket.remotePort ?? 0 } // the socket forgets them
    this.open = new Set() // responses not yet complete
    this.count = 0 // requests so far
    this.isLast = false // the limit of requests is reached
    this.hasEnded = false // the client has shut its side down
    this.isClosing = false
    this.error = 0 // a status to send once the open ones are complete
  }
}

// A whole error response, for where node:http has no response object.
function errorText (status) {
  const reason = reasonOf(status)
  return `${headText(status, TEXT)}Content-Length: ${reason.length}\r\nDate: ${dateText()}\r\nConnection: close\r\n\r\n${reason}`
}

function sendError (state, status) {
  if (state.isClosing) return // what comes behind the last answer does not matter
  state.error = status
  state.isClosing = true
  flushError(state)
}

function flushError (state) {
  if (state.error === 0 || state.open.size > 0 || !state.socket.writable) return
  state.socket.write(errorText(state.error), 'latin1')
  state.socket.destroySoon()
}

// Closing at once while the client still sends makes the kernel reset the connection, and the client
// may lose the answer; so the read side stays open for a while. node:http calls destroySoon() after
// the last response.
function linger (socket, ms) {
  let timer = null
  socket.destroySoon = () => {
    if (timer !== null || socket.destroyed) return
    socket.end()
    timer = setTimeout(() => socket.destroy(), ms)
    timer.unref()
    socket.once('close', () => clearTimeout(timer))
  }
}

// The connection is gone, and with it whatever was not complete.
function abandon (state) {
  for (const res of state.open) res.gone()
  state.open.clear()
}

function openSocket (server, socket) {
  const state = new SocketState(server, socket)
  socket[kState] = state
  server.sockets.add(state)
  linger(socket, server.options.timeouts.linger)
  socket.once('end', () => {
    state.hasEnded = true
    for (const res of state.open) res[kOwner].left()
  })
  socket.once('close', () => {
    server.sockets.delete(state)
    abandon(state)
  })
  const { connections } = server.options.limits
  if (connections > 0 && server.sockets.size > connections) sendError(state, 503)
}

// node:http's parser gave up, or a time-out passed.
function onClientError (server, err, socket) {
  const state = socket[kState]
  if (state === undefined || err.code === 'ECONNRESET' || err.code === 'EPIPE') {
    socket.destroy()
    return
  }
  // A request that broke off in its body is this error's request; nothing else will answer it.
  for (const res of state.open) {
    if (!res[kOwner][kMessage].complete && !res.sent) {
      state.open.delete(res)
      res.gone()
    }
  }
  sendError(state, statusOfParser(err, server.options.limits))
}

function statusOfParser (err, limits) {
  switch (err.code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT': return 408
    case 'HPE_HEADER_OVERFLOW': return isLongTarget(err.rawPacket, limits.targetBytes) ? 414 : 431
    default: return 400
  }
}

function isLongTarget (packet, max) {
  const end = packet?.indexOf('\r\n') ?? 0
  return packet !== undefined && (end < 0 ? packet.length : end) > max + 32
}

// ---- one request ----

// uri-host [":" port], RFC 9110 7.2; a list of hosts is none.
const HOST = /^(?:\[[0-9a-f:.]+\]|(?:[\w.~!$&'()*+;=-]|%[0-9a-f]{2})*)(?::[0-9]*)?$/i

// The checks of the head that node:http does not make, as src/proto/h1_parse.c makes them; 0 when it
// passes.
function headFault (message, limits) {
  const { method, url, rawHeaders, httpVersionMajor } = message
  if (httpVersionMajor !== 1) return httpVersionMajor > 1 ? 505 : 400
  if (url.length > limits.targetBytes) return 414
  if (rawHeaders.length / 2 > limits.headerCount || headSize(message) > limits.headerBytes) return 431
  if (url.includes('#') || (url === '*' && method !== 'OPTIONS')) return 400
  return hostFault(message) || codingFault(message)
}

function headSize ({ method, url, rawHeaders }) {
  let size = method.length + url.length + 14
  for (let i = 0; i < rawHeaders.length; i += 2) size += rawHeaders[i].length + rawHeaders[i + 1].length + 4
  return size
}

function hostFault ({ rawHeaders, httpVersionMinor }) {
  let hosts = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i].length !== 4 || rawHeaders[i].toLowerCase() !== 'host') continue
    hosts++
    if (!HOST.test(rawHeaders[i + 1])) return 400
  }
  return hosts > 1 || (hosts === 0 && httpVersionMinor > 0) ? 400 : 0
}

function codingFault ({ headers, httpVersionMinor }) {
  const coding = headers['transfer-encoding']
  if (coding === undefined) return 0
  if (httpVersionMinor === 0 || !/(?:^|,)[ \t]*chunked$/i.test(coding)) return 400
  return coding.toLowerCase() === 'chunked' ? 0 : 501
}

function begin (server, message, out) {
  const { socket } = message
  const state = socket[kState]
  if (state === undefined || state.isClosing) return null
  const { requestsPerConnection } = server.options.limits
  state.count++
  state.isLast = requestsPerConnection > 0 && state.count >= requestsPerConnection
  const req = new NodeRequest(message, state)
  const res = new NodeResponse(out, req, state)
  state.open.add(res)
  out.once('finish', () => {
    state.open.delete(res)
    res[kDone](true)
    flushError(state)
  })
  out.on('error', () => {}) // of a socket that went; 'close' tells
  message.on('error', () => {})
  return req
}

function onRequest (server, message, out, expects) {
  const req = begin(server, message, out)
  if (req === null) return
  const { limits } = server.options
  const bad = headFault(message, limits)
  if (bad !== 0) refuse(req, bad)
  else if (expects === 'other') refuse(req, 417)
  else if (Number(message.headers['content-length'] ?? 0) > limits.bodyBytes) refuse(req, 413)
  else {
    if (expects === '100-continue') out.writeContinue()
    route(server, req)
  }
}

// Answers and closes: what follows on this connection cannot be trusted, or is not wanted.
function refuse (req, status) {
  plain(req[kResponse], status, true)
}

function route (server, req) {
  const { app } = server
  const res = req[kResponse]
  const { path } = splitTarget(req.url)
  if (req.url === '*') {
    allow(res, 204, 'GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS')
    return
  }
  const found = app.router.match(req.method, path)
  switch (found.kind) {
    case 'action':
      req[kEntry] = found.entry
      req[kRaw] = found.raw
      act(server, app, found.entry, req)
      break
    case 'none':
      if (app.handler !== null) withBody(server, req, () => run(app, app.handler, req, res))
      else plain(res, 404)
      break
    case 'bad':
      plain(res, 400)
      break
    default:
      allow(res, found.kind === 'options' ? 204 : 405, found.allow)
  }
}

function allow (res, status, methods) {
  const hasText = status !== 204
  res.status(status)
  if (hasText) fieldsOf(res).set(...TEXT)
  fieldsOf(res).set('Allow', methods)
  res.send(hasText ? reasonOf(status) : null)
}

function act (server, app, entry, req) {
  const res = req[kResponse]
  if (entry.kind === 'handler') withBody(server, req, () => run(app, entry.fn, req, res))
  else run(app, () => { finishReply(res, entry.descriptor) }, req, res)
}

function hasBody (message) {
  return message.headers['transfer-encoding'] !== undefined || Number(message.headers['content-length'] ?? 0) > 0
}

// Calls `then` once the body is there; over the limit, answers 413 instead.
function withBody (server, req, then) {
  const message = req[kMessage]
  if (!hasBody(message)) {
    then()
    return
  }
  const chunks = []
  let size = 0
  const onData = (chunk) => {
    size += chunk.length
    if (size <= server.options.limits.bodyBytes) {
      chunks.push(chunk)
      return
    }
    chunks.length = 0
    message.off('data', onData).off('end', onEnd).resume()
    refuse(req, 413)
  }
  const onEnd = () => {
    req[kContent] = Buffer.concat(chunks, size)
    then()
  }
  message.on('data', onData).on('end', onEnd)
}

// ---- the server ----

function httpOptions ({ limits, timeouts }) {
  const { header, body, keepAlive } = timeouts
  return {
    // Generous, because it counts other bytes than limits.headerBytes does; headFault() is exact.
    maxHeaderSize: 2 * limits.headerBytes + limits.targetBytes,
    headersTimeout: header,
    requestTimeout: body === 0 ? 0 : header + body,
    keepAliveTimeout: keepAlive,
    connectionsCheckingInterval: Math.min(1000, Math.max(50, header >> 1)),
    noDelay: true,
    requireHostHeader: false, // headFault() answers in our form
    insecureHTTPParser: false
  }
}

function createHttp (server) {
  const made = http.createServer(httpOptions(server.options))
  made.maxHeadersCount = 0 // it would drop fields in silence
  made.httpAllowHalfOpen = true // a client may shut its side down after its request
  made.timeout = 0
  made.on('connection', (socket) => openSocket(server, socket))
  made.on('request', (message, out) => onRequest(server, message, out, ''))
  made.on('checkContinue', (message, out) => onRequest(server, message, out, '100-continue'))
  made.on('checkExpectation', (message, out) => onRequest(server, message, out, 'other'))
  made.on('connect', (_message, socket) => sendError(socket[kState], 404))
  made.on('clientError', (err, socket) => onClientError(server, err, socket))
  return made
}

function listen (made, { port, host, hasHost, backlog }) {
  return new Promise((resolve, reject) => {
    made.once('error', reject)
    // Without a host, node:http takes '::', or '0.0.0.0' where there is no IPv6.
    made.listen(hasHost ? { port, host, backlog } : { port, backlog }, () => {
      made.off('error', reject)
      resolve()
    })
  })
}

function stop (server) {
  server.isStopping = true
  return new Promise((resolve) => {
    server.http.close(() => resolve())
    // Whoever has no request running would wait for the client otherwise.
    for (const state of server.sockets) {
      if (state.open.size === 0) state.socket.destroySoon()
    }
  })
}

function force (server) {
  for (const state of server.sockets) {
    state.socket.destroy()
    abandon(state) // its event comes after that of the server
  }
}

async function createServer (options, app) {
  const server = { options, app, sockets: new Set(), isStopping: false, http: null }
  server.http = createHttp(server)
  await listen(server.http, options)
  server.http.on('error', () => {}) // accept() failing now and then must not end the process
  return new MillraceServer(options, 'node', {
    port: server.http.address().port,
    swap (next) { server.app = next },
    stop: () => stop(server),
    force: () => force(server)
  })
}

exports.createServer = createServer
