'use strict'
// The whole API on node:http, for where the native module cannot run. Bytes on the wire are those of
// the native engine wherever node:http lets them be; what it does not is listed in index.d.ts.
//
// A socket's state: open -> closing (an answer or an error said so; later requests are ignored).

const fs = require('node:fs')
const http = require('node:http')
const net = require('node:net')
const {
  kMethod, kTarget, kMinor, kRawHeaders, kParams, kAddress, kTrust, kBody, kExpects, kAlive, kOnGone, kFinish, kBegin,
  kWrite, kDrained, kEnd, kAbort, kInform, kRequest, kDone, kSent, kStream
} = require('./symbols')
const { MillraceRequest } = require('./request')
const { MillraceResponse, fieldsOf, finishReply } = require('./response')
const { closes } = require('./fields')
const { MillraceServer } = require('./server')
const { TEXT, headText, reasonOf, hasNoLength, hasNoContent } = require('./head')
const { Body, LOST, contentFault } = require('./body')
const { withPermits } = require('./permits')
const { Intake } = require('./intake')
const { run, plain } = require('./settle')
const { splitTarget } = require('./target')
const { fieldValue } = require('./joined')
const { fault } = require('./errors')
const { clearStale, expand, isAbstract, listenFault, tcpAddress, unixAddress } = require('./listen')

const NOTHING = Buffer.alloc(0)
const SLOW_BYTES = 1024 * 1024 // waiting bytes that make a client slow, unless limits say less
const HELD_FACTOR = 4 // of limits.outgoingBytes: then the connection is given up
const READ_PAST_BYTES = 256 * 1024 // content that is read for the next request's sake

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
const kIsLast = Symbol('isLast')
const kExpecting = Symbol('expecting')
const kIsContinued = Symbol('isContinued')
const kIntake = Symbol('intake')
const kIsTaken = Symbol('isTaken')
const kFault = Symbol('fault')
const kIsOver = Symbol('isOver')
const kIsSized = Symbol('isSized')
const kDrains = Symbol('drains')

// ---- requests and responses ----

class NodeRequest extends MillraceRequest {
  constructor (message, state) {
    super()
    this[kMessage] = message
    this[kState] = state
    this[kEntry] = null
    this[kRaw] = null
    this[kContent] = null
    this[kResponse] = null
    this[kIntake] = null // while content is still coming
    this[kIsTaken] = false // headFault() has looked at it
    this[kFault] = 0 // a status: its content was broken before that
    this[kExpecting] = false // a 100 (Continue), for content that streams
    this[kIsContinued] = false
    this[kIsLast] = false // of its connection, by the limit of requests
    this[kLeft] = false
    this[kCallbacks] = []
  }

  [kMethod] () { return this[kMessage].method }
  [kTarget] () { return this[kMessage].url }
  [kMinor] () { return this[kMessage].httpVersionMinor === 0 ? 0 : 1 }
  [kRawHeaders] () { return this[kMessage].rawHeaders }
  [kAddress] () { return this[kState].address }
  [kTrust] () { return this[kState].server.options.trust }
  [kBody] () { return this[kContent] ?? (this[kContent] = Body.of(NOTHING)) }
  [kExpects] () { return this[kExpecting] }
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
    this[kIsOver] = false // the engine itself has answered
    this[kIsSized] = true // the client sees by the framing when an answer was cut short
    this[kDrains] = []
    req[kResponse] = this
  }

  [kAlive] () { return !this[kGone] && !this[kIsOver] }
  [kRequest] () { return this[kOwner] }

  [kFinish] (status, headers, body, { close, hasDate, length }) {
    const out = this[kOut]
    const bytes = typeof body === 'string' ? Buffer.from(body) : body
    const flat = headers.slice()
    if (!hasNoLength(status)) flat.push('Content-Length', String(length >= 0 ? length : bytes === null ? 0 : bytes.byteLength))
    writeHead(this, status, flat, hasDate, close || leavesContent(this[kOwner]))
    abandonContent(this[kOwner])
    // Bytes, not a string: node:http would write latin1 header values as UTF-8 in front of one.
    if (bytes === null || bytes.byteLength === 0) out.end()
    else out.end(bytes)
  }

  [kBegin] (status, headers, { close, hasDate, length }) {
    const flat = headers.slice()
    const isOld = this[kOwner][kMinor]() === 0
    this[kStream].hasContent = !hasNoContent(status) && this[kOwner].method !== 'HEAD'
    if (length >= 0 && !hasNoLength(status)) flat.push('Content-Length', String(length))
    else if (status === 205) flat.push('Content-Length', '0')
    else if (!hasNoLength(status) && !isOld) flat.push('Transfer-Encoding', 'chunked')
    else this[kIsSized] = !this[kStream].hasContent
    writeHead(this, status, flat, hasDate, close || !this[kIsSized])
    this[kOut]._send('', 'latin1') // flushHeaders() would take latin1 for UTF-8
  }

  [kWrite] (chunk) {
    const out = this[kOut]
    const stream = this[kStream]
    if (!stream.hasContent) return true
    const { slowBytes, heldBytes } = this[kState].server
    const before = out.writableLength
    out.write(typeof chunk === 'string' ? Buffer.from(chunk) : chunk, (err) => { if (!err) tellDrained(this) })
    if (before > 0 && out.writableLength > heldBytes) this[kState].socket.destroy()
    stream.isSlow = out.writableLength >= slowBytes
    return !stream.isSlow
  }

  [kDrained] () {
    if (this[kStream] === null || !this[kStream].isSlow) return Promise.resolve(true)
    return new Promise((resolve) => this[kDrains].push(resolve))
  }

  [kEnd] (trailers) {
    const out = this[kOut]
    const pairs = []
    for (let i = 0; i < trailers.length; i += 2) pairs.push([trailers[i], trailers[i + 1]])
    if (pairs.length > 0 && out.chunkedEncoding) out.addTrailers(pairs)
    if (leavesContent(this[kOwner])) this[kState].isClosing = true
    abandonContent(this[kOwner])
    out.end()
  }

  // In its turn, and when node:http has written what it held back until the next tick.
  [kAbort] () {
    const { socket } = this[kState]
    const cut = () => setImmediate(() => this[kIsSized] ? socket.destroy() : socket.resetAndDestroy())
    this[kState].isClosing = this[kState].hasLast = true
    if (this[kOut].socket !== null) cut()
    else this[kOut].once('socket', cut)
  }

  [kInform] (status, headers) {
    if (this[kOwner][kMinor]() > 0) this[kOut]._writeRaw(`${headText(status, headers)}\r\n`, 'latin1')
  }

  gone () {
    if (this[kGone]) return
    this[kGone] = true
    this[kDone](false)
    for (const resolve of this[kDrains].splice(0)) resolve(false)
    this[kOwner].left()
    this[kOwner][kIntake]?.fail(LOST.aborted, 0)
  }
}

function writeHead (res, status, flat, hasDate, close) {
  const out = res[kOut]
  if (!hasDate) flat.push('Date', dateText())
  pushConnection(flat, res, close)
  out.sendDate = false
  out.removeHeader('Connection') // else node:http adds lines of its own
  out.writeHead(status, reasonOf(status), flat)
}

function tellDrained (res) {
  if (res[kDrains].length === 0 || res[kOut].writableLength > 0) return
  res[kStream].isSlow = false
  for (const resolve of res[kDrains].splice(0)) resolve(true)
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

// Whether nothing more will be asked, or taken, and this is the last of what was.
function isFinal (state, res) {
  return (state.hasEnded || state.server.isStopping) && [...state.open].at(-1) === res
}

function pushConnection (flat, res, close) {
  const state = res[kState]
  const message = res[kOwner][kMessage]
  const said = fieldValue(message.rawHeaders, 'connection') ?? ''
  const isOld = message.httpVersionMinor === 0
  const wantsKeep = isOld ? /\bkeep-alive\b/i.test(said) : true
  if (close || res[kOwner][kIsLast] || isFinal(state, res) || !wantsKeep || closes(said)) {
    state.isClosing = state.hasLast = true
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
    this.isFull = false // the limit of requests is reached
    this.latest = null // the request that came last
    this.intake = null // of the request whose content comes; there is one at a time
    this.hasEnded = false // the client has shut its side down
    this.isClosing = false
    this.hasLast = false // a last answer was given: what was asked behind it is not processed
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
  const intake = state.intake
  const isInContent = intake !== null && !intake.isOver
  if (err.code === 'HPE_INVALID_EOF_STATE') {
    // A request that was cut short is nobody's; those before it get their answers.
    state.hasEnded = true
    if (isInContent) intake.fail(LOST.aborted, 0)
    endWhenIdle(state)
    return
  }
  const status = statusOfParser(err, server.options.limits)
  if (isInContent) intake.fail(LOST.bad, status)
  else if (isYetToBeTaken(state)) state.latest[kFault] = status
  else sendError(state, status)
}

// Head and broken content came in one piece: the parser tells before the request was looked at.
function isYetToBeTaken ({ latest }) {
  return latest !== null && !latest[kIsTaken] && !latest[kMessage].complete
}

// Nothing more will be asked.
function endWhenIdle (state) {
  if (state.hasEnded && state.open.size === 0) state.socket.destroySoon()
}

function statusOfParser (err, limits) {
  switch (err.code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT': return 408
    case 'HPE_HEADER_OVERFLOW': return isLongTarget(err.rawPacket, limits.targetBytes) ? 414 : 431
    default: return 400
  }
}

// The packet is what the parser was given last; unless it begins a request, nobody can tell, and 431
// holds for either.
function isLongTarget (packet, max) {
  const start = packet?.latin1Slice(0, 2 * max + 64) ?? ''
  if (!/^[\w!#$%&'*+.^`|~-]+ /.test(start)) return false
  const end = start.indexOf('\r\n')
  return (end < 0 ? start.length : end) > max + 32
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
  const state = message.socket[kState]
  if (state === undefined || state.isClosing || state.isFull) return null
  const { requestsPerConnection } = server.options.limits
  const req = new NodeRequest(message, state)
  const res = new NodeResponse(out, req, state)
  state.count++
  req[kIsLast] = state.isFull = requestsPerConnection > 0 && state.count >= requestsPerConnection
  state.latest = req
  state.open.add(res)
  out._expect_continue = false // else node:http closes when no 100 was sent
  out.once('finish', () => onFinish(state, res))
  out.on('error', () => {}) // of a socket that went; 'close' tells
  message.on('error', () => {})
  return req
}

function onFinish (state, res) {
  state.open.delete(res)
  res[kDone](!state.socket.destroyed) // after a reset "finish" comes as well
  flushError(state)
  if (state.isClosing && state.error === 0 && state.open.size === 0) state.socket.destroySoon()
  endWhenIdle(state)
}

// A tick later, what of the content came with the head is there; and requests keep their order.
function onRequest (server, message, out, expects) {
  const req = begin(server, message, out)
  if (req === null) return
  process.nextTick(() => {
    if (req[kState].hasLast) req[kState].open.delete(req[kResponse])
    else take(server, req, expects)
  })
}

function take (server, req, expects) {
  const { limits } = server.options
  const bad = headFault(req[kMessage], limits)
  req[kIsTaken] = true
  if (bad !== 0) refuse(req, bad)
  else if (req[kFault] !== 0) endByItself(req, req[kFault])
  else if (expects === 'other') refuse(req, 417)
  else dispatch(server, req, expects)
}

// Answers and closes: what follows on this connection cannot be trusted, or is not wanted.
function refuse (req, status) {
  plain(req[kResponse], status, true)
}

function dispatch (server, req, expects) {
  const { app } = server
  const message = req[kMessage]
  const found = req.url === '*' ? { kind: 'server' } : app.router.match(req.method, splitTarget(req.url).path)
  const entry = found.kind === 'action' ? found.entry : null
  const isWanted = entry !== null ? entry.kind === 'handler' : found.kind === 'none' && app.handler !== null
  const most = (isWanted && entry?.bodyBytes) || server.options.limits.bodyBytes
  const go = () => answer(app, req, found)
  if (!hasBody(message)) go()
  else if (lengthOf(message) > most) refuse(req, 413)
  else if (isWhole(message)) {
    req[kContent] = Body.of(message.read() ?? NOTHING)
    message.resume()
    go()
  } else if (isWanted) {
    req[kExpecting] = expects === '100-continue'
    receive(server, req, most)
    go()
  } else {
    readPast(server, req, most, expects === '100-continue', go)
  }
}

function answer (app, req, found) {
  const res = req[kResponse]
  switch (found.kind) {
    case 'server':
      allow(res, 204, 'GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS')
      break
    case 'action':
      req[kEntry] = found.entry
      req[kRaw] = found.raw
      act(app, found.entry, req)
      break
    case 'none':
      if (app.handler !== null) run(app, app.handler, req, res)
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

function act (app, entry, req) {
  const res = req[kResponse]
  if (entry.kind === 'handler') run(app, entry.fn, req, res)
  else if (entry.kind === 'live') run(app, () => live(entry.what, req[kState].server, res), req, res)
  else run(app, () => { finishReply(res, entry.descriptor) }, req, res)
}

// What the native engine's core tells of a fleet: of this one thread, which is up if it answers.
function healthOf (server) {
  const connections = server.sockets.size
  const row = { thread: 0, state: server.isStopping ? 'draining' : 'up', heartbeatAge: 0, lag: 0, utilisation: 0, mailboxDepth: 0, connections }
  return { status: 'ok', threads: [row] }
}

function metricsOf (server) {
  return '# node:http is in use, which is not counted any further.\n' +
    '# HELP millrace_thread_connections Open connections.\n# TYPE millrace_thread_connections gauge\n' +
    `millrace_thread_connections{thread="0"} ${server.sockets.size}\n`
}

function live (what, server, res) {
  res.header('Cache-Control', 'no-store')
  if (what === 'metrics') return res.type('text/plain; version=0.0.4; charset=utf-8').send(metricsOf(server))
  if (what === 'ready' && server.isStopping) res.status(503)
  return healthOf(server)
}

// ---- the content of a request ----

function hasBody (message) {
  return message.headers['transfer-encoding'] !== undefined || lengthOf(message) > 0
}

function lengthOf (message) {
  return Number(message.headers['content-length'] ?? 0)
}

// Whether all of it came together with the head.
function isWhole (message) {
  return message.headers['transfer-encoding'] === undefined && message.readableLength >= lengthOf(message)
}

function intakeOf (server, req, most, done) {
  const { limits, timeouts } = server.options
  const intake = new Intake(req[kMessage], { bytes: most, bytesPerSecond: limits.bodyBytesPerSecond, ms: timeouts.body }, done)
  req[kIntake] = req[kState].intake = intake
  return intake
}

// The content goes to the handler as it comes.
function receive (server, req, most) {
  const body = new Body({
    start: () => sendContinue(req),
    take: (bytes) => intake.take(bytes)
  })
  const intake = intakeOf(server, req, most, (reason, status) => {
    req[kIntake] = null
    if (reason === 0) return
    body.fail(contentFault(reason))
    if (reason !== LOST.aborted) endByItself(req, status)
  })
  req[kContent] = body
  intake.start(body)
}

// Whether the client still waits for a 100 (Continue).
function owesContinue (req) {
  return req[kExpecting] && !req[kIsContinued] && req[kIntake] !== null && req[kIntake].received === 0
}

// Behind the head of an answer it would be content.
function sendContinue (req) {
  if (!owesContinue(req) || req[kResponse][kSent]) return
  req[kIsContinued] = true
  req[kResponse][kOut].writeContinue()
}

// The answer comes when the content that nobody wants has been read past.
function readPast (server, req, most, expects, go) {
  if (expects) {
    req[kIsLast] = true // the client need not send what nobody will read
    go()
    return
  }
  const intake = intakeOf(server, req, most, (reason, status) => {
    req[kIntake] = null
    if (reason === LOST.aborted) forget(req)
    else if (reason !== 0) endByItself(req, status)
    else if (!req[kState].hasLast) go()
  })
  intake.start(null)
}

// Nobody will answer a request that was cut short before it was acted on.
function forget (req) {
  const state = req[kState]
  state.open.delete(req[kResponse])
  endWhenIdle(state)
}

// The engine's own answer, unless one has begun; either way the last of its connection.
function endByItself (req, status) {
  const res = req[kResponse]
  const state = req[kState]
  if (!res[kSent] && !res[kGone]) {
    res[kIsOver] = true
    res[kFinish](status, TEXT, reasonOf(status), { close: true, hasDate: false, length: -1 })
  }
  state.isClosing = true
  if (!state.open.has(res)) state.socket.destroySoon()
}

// Too much is left to be read past for the sake of the next request.
function leavesContent (req) {
  const intake = req[kIntake]
  if (intake === null) return false
  const message = req[kMessage]
  const isChunked = message.headers['transfer-encoding'] !== undefined
  return isChunked || lengthOf(message) - intake.received > READ_PAST_BYTES || owesContinue(req)
}

// The answer is complete; the rest of the content is read past.
function abandonContent (req) {
  const intake = req[kIntake]
  if (intake === null) return
  req[kContent]?.fail(contentFault(LOST.unread))
  intake.discard()
}

// ---- the server ----

function httpOptions ({ limits, timeouts }) {
  const { header, keepAlive } = timeouts
  return {
    // Generous, because it counts other bytes than limits.headerBytes does; headFault() is exact.
    maxHeaderSize: 2 * limits.headerBytes + limits.targetBytes,
    headersTimeout: header,
    requestTimeout: 0, // the intake's own is not the client's while we make it wait
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

// ---- listening ----

function tryListen (made, where) {
  return new Promise((resolve, reject) => {
    made.once('error', reject)
    made.listen(where, () => {
      made.off('error', reject)
      resolve()
    })
  })
}

async function listenUnix (made, { path, mode, backlog }) {
  try {
    await tryListen(made, { path, backlog })
  } catch (err) {
    if (err.code !== 'EADDRINUSE' || isAbstract({ path }) || !await clearStale(path)) throw err
    await tryListen(made, { path, backlog })
  }
  if (mode !== undefined) fs.chmodSync(path, mode)
  return unixAddress(path)
}

function addressOf (made, host, ipv6Only) {
  const bound = made.address()
  if (bound === null || typeof bound === 'string') return unixAddress(bound ?? '')
  return tcpAddress(host ?? bound.address, bound.port, ipv6Only)
}

async function listenOne (made, listener) {
  const { kind, host, port, hasHost, ipv6Only, reusePort, backlog } = listener
  if (kind === 'unix') return listenUnix(made, listener)
  if (kind === 'fd') {
    await tryListen(made, { fd: listener.fd })
    return addressOf(made)
  }
  // Without a host, node:http takes '::', or '0.0.0.0' where there is no IPv6.
  await tryListen(made, { port, backlog, ipv6Only, reusePort, ...((hasHost || ipv6Only) && { host }) })
  return addressOf(made, host, ipv6Only)
}

// An http.Server listens in one place; the sockets of the others are handed to it.
function doorTo (made) {
  const door = net.createServer({ allowHalfOpen: true, noDelay: true }, (socket) => made.emit('connection', socket))
  return door
}

async function listen (server, listeners) {
  const addresses = []
  for (const listener of expand(listeners)) {
    const made = addresses.length === 0 ? server.http : doorTo(server.http)
    try {
      addresses.push(await listenOne(made, listener))
    } catch (err) {
      for (const each of [...server.doors, made]) each.close(() => {})
      throw listenFault(err, listener)
    }
    server.doors.push(made)
    made.on('error', () => {}) // accept() failing now and then must not end the process
  }
  return addresses
}

// net.Server takes reusePort from these versions on, and does not say so when it does not.
function sharesPorts () {
  const [major, minor] = process.versions.node.split('.').map(Number)
  return major > 23 || (major === 23 && minor >= 1) || (major === 22 && minor >= 12)
}

const WAY_OUT = 'Leave it out, or see by probe() why the native engine is not in use.'

function checkListening ({ listeners, proxySources }) {
  if (proxySources.length > 0) throw fault('ERR_MILLRACE_UNSUPPORTED', 'proxyProtocol needs the native engine; node:http cannot read its header.', undefined, WAY_OUT)
  if (!sharesPorts() && listeners.some(({ reusePort }) => reusePort)) throw fault('ERR_MILLRACE_UNSUPPORTED', 'reusePort needs the native engine, or Node 22.12 or 23.1 and later.', undefined, WAY_OUT)
}

// ---- the end ----

function stop (server, grace) {
  server.isStopping = true
  setTimeout(() => closeIdle(server), grace)
  // http.Server's own close() ends idle connections at once; a request may be on its way there.
  return Promise.all(server.doors.map((door) => new Promise((resolve) => net.Server.prototype.close.call(door, () => resolve()))))
}

// Whoever has no request running would wait for the client otherwise.
function closeIdle (server) {
  server.http.close(() => {}) // stops its timer; it is closed already
  for (const state of server.sockets) {
    if (state.open.size === 0) state.socket.destroySoon()
  }
}

function force (server) {
  for (const state of server.sockets) {
    state.socket.destroy()
    abandon(state) // its event comes after that of the server
  }
}

// The handlers of routes with a limit keep it.
function withLimits (app) {
  return app.with(app.entries.map((entry) => withPermits(entry, null, null, undefined)))
}

let hasTold = false

// Once: what is asked for and cannot be had here.
function tellIgnored ({ rate, overload, accessLog }) {
  const names = [rate && 'limits.rate', overload && 'overload', accessLog && 'accessLog'].filter(Boolean)
  if (names.length === 0 || hasTold) return
  hasTold = true
  process.emitWarning(`On node:http there is no ${names.join(', no ')}: the native engine has it.`, { type: 'MillraceWarning', code: 'MILLRACE_NODE_HTTP_IGNORED' })
}

async function createServer (options, app) {
  const { outgoingBytes } = options.limits
  const server = {
    options,
    app: withLimits(app),
    sockets: new Set(),
    isStopping: false,
    http: null,
    doors: [], // net.Servers that listen, http among them
    slowBytes: Math.min(SLOW_BYTES, outgoingBytes),
    heldBytes: outgoingBytes * HELD_FACTOR
  }
  checkListening(options)
  tellIgnored(options)
  server.http = createHttp(server)
  const addresses = await listen(server, options.listeners)
  return new MillraceServer(options, 'node', {
    addresses,
    swap (next) { server.app = withLimits(next) },
    stop: (grace) => stop(server, grace),
    force: () => force(server),
    metrics: () => metricsOf(server),
    health: () => JSON.stringify(healthOf(server)),
    reopenAccessLog () {}
  })
}

exports.createServer = createServer
