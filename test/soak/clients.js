'use strict'
// Clients: one that uploads, one that reads slowly, and those that go in the middle.

const http = require('node:http')
const net = require('node:net')
const { pieces, isRight } = require('./pattern')
const { pause } = require('./child')

const MIB = 1 << 20
const PIECE_BYTES = 64 * 1024
const PAUSE_EVERY_BYTES = 8 * MIB
const PAUSE_MS = 20
const PART = Buffer.alloc(32 * 1024, 97) // of a body that is never completed
const ANNOUNCED_BYTES = MIB
const TOGETHER = 50

async function textOf (message) {
  let text = ''
  for await (const chunk of message.setEncoding('utf8')) text += chunk
  return text
}

function answerTo (request) {
  return new Promise((resolve, reject) => { request.once('response', resolve).once('error', reject) })
}

// POSTs that many octets; gives what the server says about them.
async function upload (port, path, bytes, isChunked) {
  const headers = isChunked ? { 'Transfer-Encoding': 'chunked' } : { 'Content-Length': bytes }
  const request = http.request({ host: '127.0.0.1', port, path, method: 'POST', headers, agent: false })
  const answer = answerTo(request)
  answer.catch(() => {}) // looked at below; it may come while we write
  for (const piece of pieces(bytes, PIECE_BYTES)) {
    if (!request.write(piece)) await Promise.race([new Promise((resolve) => { request.once('drain', resolve) }), answer])
  }
  request.end()
  const message = await answer
  const text = await textOf(message)
  if (message.statusCode !== 200) throw new Error(`the upload was answered by ${message.statusCode}: ${text}`)
  return JSON.parse(text)
}

// GETs that many octets and looks away every few of them.
async function download (port, path, bytes) {
  const request = http.request({ host: '127.0.0.1', port, path: `${path}?bytes=${bytes}`, agent: false })
  const answer = answerTo(request)
  request.end()
  const message = await answer
  let [received, next, isSame] = [0, PAUSE_EVERY_BYTES, message.statusCode === 200]
  for await (const chunk of message) {
    isSame = isSame && isRight(chunk, received)
    received += chunk.length
    if (received < next) continue
    next += PAUSE_EVERY_BYTES
    await pause(PAUSE_MS)
  }
  return { bytes: received, isSame }
}

// Sends `head`, waits for the first octets of the answer, which must begin with `expected`, sends
// `rest` and resets the connection.
function resetAfter (port, head, expected, rest) {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ port, host: '127.0.0.1' })
    let said = null
    socket.once('connect', () => socket.write(head))
    socket.once('data', (chunk) => {
      said = chunk.toString('latin1', 0, expected.length)
      if (said !== expected || rest === null) socket.resetAndDestroy()
      else socket.write(rest, () => socket.resetAndDestroy())
      socket.pause()
    })
    socket.once('error', reject)
    socket.once('close', () => {
      if (said === expected) resolve()
      else reject(new Error(`expected ${expected}, got ${said}`))
    })
  })
}

const CHUNKED_PART = Buffer.concat([Buffer.from(`${(2 * PART.length).toString(16)}\r\n`), PART])

// The server asks for the body when its handler reads, so it is in the middle of it.
function abortBody (port, i) {
  const framing = i % 2 === 0 ? `Content-Length: ${ANNOUNCED_BYTES}` : 'Transfer-Encoding: chunked'
  const head = `POST /aborted/body HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n${framing}\r\n\r\n`
  return resetAfter(port, head, 'HTTP/1.1 100', i % 2 === 0 ? PART : CHUNKED_PART)
}

function abortAnswer (port, path) {
  return resetAfter(port, `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`, 'HTTP/1.1 200', null)
}

const abortStream = (port) => abortAnswer(port, '/aborted/stream')
const abortLarge = (port) => abortAnswer(port, '/aborted/large')

// `abort(port, i)` for each i below count, some of them at a time.
async function abortMany (port, count, abort) {
  let next = 0
  await Promise.all(Array.from({ length: TOGETHER }, async () => {
    while (next < count) await abort(port, next++)
  }))
}

module.exports = { upload, download, abortBody, abortStream, abortLarge, abortMany, textOf, answerTo }
