'use strict'
// A raw client for tests: bytes out, responses in, so that what is on the wire can be compared.

const net = require('node:net')
const v8 = require('node:v8')
const vm = require('node:vm')
const { serve } = require('../..')

v8.setFlagsFromString('--expose-gc')
const collect = vm.runInNewContext('gc')

const PATIENCE = 20000 // only to end a test that hangs; nothing is measured by it

// A server of this test on a free port, gone when the test is.
async function start (t, options) {
  const server = await serve({ port: 0, host: '127.0.0.1', ...options })
  t.after(() => server.close({ deadline: 0 }))
  return server
}

// The fields of head lines by lower-case name, repeated ones joined.
function fieldsOf (lines) {
  const headers = {}
  for (const text of lines) {
    const at = text.indexOf(':')
    const name = text.slice(0, at).toLowerCase()
    headers[name] = name in headers ? `${headers[name]}, ${text.slice(at + 1).trim()}` : text.slice(at + 1).trim()
  }
  return headers
}

// Decodes the chunked coding from `at` on; null when it is not complete.
function unchunk (bytes, at) {
  const chunks = []
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', at)
    if (lineEnd < 0) return null
    const line = bytes.toString('latin1', at, lineEnd)
    if (!/^[0-9a-f]+$/i.test(line)) throw new Error(`not a chunk size: ${JSON.stringify(line)}`)
    const size = parseInt(line, 16)
    at = lineEnd + 2
    if (size === 0) break
    if (bytes.length < at + size + 2) return null
    if (bytes.toString('latin1', at + size, at + size + 2) !== '\r\n') throw new Error('a chunk without its end')
    chunks.push(bytes.subarray(at, at + size))
    at += size + 2
  }
  const lines = []
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', at)
    if (lineEnd < 0) return null
    const line = bytes.toString('latin1', at, lineEnd)
    at = lineEnd + 2
    if (line === '') return { chunks, lines, end: at }
    lines.push(line)
  }
}

// Cuts one response off the front of `bytes`; null when it is not complete. The body is decoded; one
// that goes on until the connection ends is complete when `hasEnded`.
function cut (bytes, method, hasEnded) {
  const end = bytes.indexOf('\r\n\r\n')
  if (end < 0) return null
  const head = bytes.toString('latin1', 0, end)
  const [line, ...lines] = head.split('\r\n')
  const status = Number(line.split(' ')[1])
  const headers = fieldsOf(lines)
  const isInterim = status < 200
  const isEmpty = isInterim || method === 'HEAD' || status === 204 || status === 304
  const common = { status, line, lines, headers, isInterim, head: bytes.toString('latin1', 0, end + 4) }
  if (!isEmpty && headers['transfer-encoding'] === 'chunked') {
    const decoded = unchunk(bytes, end + 4)
    if (decoded === null) return null
    const body = Buffer.concat(decoded.chunks).toString('utf8')
    return { ...common, body, chunks: decoded.chunks.map(String), trailers: fieldsOf(decoded.lines), size: decoded.end, raw: bytes.toString('latin1', 0, decoded.end) }
  }
  const untilEnd = !isEmpty && headers['content-length'] === undefined
  if (untilEnd && !hasEnded) return null
  const length = isEmpty ? 0 : untilEnd ? bytes.length - end - 4 : Number(headers['content-length'])
  if (bytes.length < end + 4 + length) return null
  const body = bytes.toString('utf8', end + 4, end + 4 + length)
  return { ...common, body, trailers: {}, size: end + 4 + length, raw: bytes.toString('latin1', 0, end + 4 + length) }
}

function connect (server) {
  const socket = net.connect({ port: server.port, host: '127.0.0.1', allowHalfOpen: true })
  let bytes = Buffer.alloc(0)
  let hasEnded = false
  let wake = () => {}
  socket.on('data', (chunk) => {
    bytes = Buffer.concat([bytes, chunk])
    wake()
  })
  socket.on('end', () => {
    hasEnded = true
    wake()
  })
  socket.on('error', () => {
    hasEnded = true
    wake()
  })
  const until = (what, check) => new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`waited in vain for ${what}; got ${JSON.stringify(bytes.toString('latin1'))}`)), PATIENCE)
    wake = () => {
      const value = check()
      if (value === undefined) return
      clearTimeout(timer)
      wake = () => {}
      resolve(value)
    }
    wake()
  })
  return {
    socket,
    write: (text) => socket.write(text, 'latin1'),
    end: () => socket.end(),
    destroy: () => socket.destroy(),
    reset: () => socket.resetAndDestroy(),
    // The next response, to a request of this method.
    next: (method = 'GET') => until('a response', () => {
      const response = cut(bytes, method, hasEnded)
      if (response === null) {
        if (hasEnded) throw new Error(`the connection ended; got ${JSON.stringify(bytes.toString('latin1'))}`)
        return undefined
      }
      bytes = bytes.subarray(response.size)
      return response
    }),
    clear: () => { bytes = Buffer.alloc(0) },
    // The server's FIN (or a reset); gives what came before it.
    ended: () => until('the end', () => hasEnded ? bytes.toString('latin1') : undefined),
    get pending () { return bytes.toString('latin1') }
  }
}

// Sends text on one connection and gives the responses to requests of these methods, in order.
async function exchange (server, text, methods = ['GET']) {
  const client = connect(server)
  try {
    client.write(text)
    const responses = []
    for (const method of methods) responses.push(await client.next(method))
    return responses
  } finally {
    client.destroy()
  }
}

function request (method, target, headers = {}, body = '') {
  const lines = Object.entries({ Host: 'test', ...headers }).map(([name, value]) => `${name}: ${value}\r\n`)
  const length = body === '' ? '' : `Content-Length: ${Buffer.byteLength(body, 'latin1')}\r\n`
  return `${method} ${target} HTTP/1.1\r\n${lines.join('')}${length}\r\n${body}`
}

// One request, its response.
async function ask (server, method, target, headers, body) {
  const [response] = await exchange(server, request(method, target, headers, body), [method])
  return response
}

// The bytes of a response without the value that depends on the clock.
function timeless (response) {
  return response.raw.replace(/\r\nDate: [^\r\n]*/, '\r\nDate: now')
}

// Keeps the default error hook quiet, and what it would have said.
function quiet (t) {
  const lines = []
  t.mock.method(console, 'error', (...args) => lines.push(args.join(' ')))
  return lines
}

// A promise with its ends outside.
function deferred () {
  const made = {}
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }))
  return made
}

// The promise, or an error when it never settles.
function within (promise, what) {
  let timer
  const never = new Promise((resolve, reject) => { timer = setTimeout(() => reject(new Error(`waited in vain for ${what}`)), PATIENCE) })
  return Promise.race([promise, never]).finally(() => clearTimeout(timer))
}

// How much memory grew at most since it was made, by what is in use when look() is called.
class Growth {
  #before
  memory = 0 // of buffers
  rss = 0

  constructor () {
    collect()
    collect()
    this.#before = process.memoryUsage()
  }

  look () {
    collect()
    const now = process.memoryUsage()
    this.memory = Math.max(this.memory, now.arrayBuffers - this.#before.arrayBuffers)
    this.rss = Math.max(this.rss, now.rss - this.#before.rss)
  }
}

module.exports = { start, connect, exchange, request, ask, timeless, quiet, deferred, within, Growth }
