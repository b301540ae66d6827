'use strict'
// The server whose memory is watched, in a process of its own (child.js starts it). Messages from the
// parent: 'look' (collects garbage and tells the counts), 'leak' (from now on, some octets are kept for
// every request that is aborted; tells the counts), 'close'.
//   argv[2]  { timeouts, leakBytes } as JSON

const { readdirSync } = require('node:fs')
const { Readable } = require('node:stream')
const { open } = require('../proc/_inside')
const { pieces, isRight } = require('./pattern')

const MIB = 1 << 20
const PIECE_BYTES = 64 * 1024
const LARGE_BYTES = 8 * MIB // more than the kernel takes for a client that does not read
const SLOW_EVERY_BYTES = MIB
const SLOW_MS = 10
const BUSY_MS = 5
const DEFAULTS = { header: 10000, body: 300000, keepAlive: 75000, send: 300000 }

const { timeouts, leakBytes } = JSON.parse(process.argv[2])
const kept = []
let isLeaking = false
const counts = { begun: 0, aborted: 0, complete: 0, large: 0, waits: 0 }

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms) })
const bytesOf = (req) => Number(req.query.get('bytes'))

function begin () {
  counts.begun++
  if (isLeaking) kept.push(Buffer.alloc(leakBytes, 1))
}

const count = (isComplete) => { counts[isComplete ? 'complete' : 'aborted']++ }

// ---- uploads ----

async function readSlowly (req) {
  let [bytes, next, pauses, isSame] = [0, SLOW_EVERY_BYTES, 0, true]
  for await (const chunk of req) {
    isSame = isSame && isRight(chunk, bytes)
    bytes += chunk.length
    if (bytes < next) continue
    next += SLOW_EVERY_BYTES
    pauses++
    await pause(SLOW_MS)
  }
  return { bytes, pauses, isSame }
}

async function readWhole (req) {
  const all = await req.bytes()
  return { bytes: all.length, pauses: 0, isSame: isRight(all, 0) }
}

// ---- downloads ----

async function write (req, res) {
  for (const piece of pieces(bytesOf(req), PIECE_BYTES)) {
    if (res.write(piece)) continue
    counts.waits++
    if (!await res.drained()) return
  }
  res.end()
}

async function * iterate (total) {
  for (const piece of pieces(total, PIECE_BYTES)) yield piece
}

function whole (req) {
  return Buffer.concat([...pieces(bytesOf(req), PIECE_BYTES)])
}

// ---- what clients abort ----

async function abortedBody (req) {
  begin()
  try {
    for await (const chunk of req) if (chunk.length === 0) break
    count(true)
  } catch (err) {
    if (err.code !== 'ERR_MILLRACE_ABORTED') throw err
    count(false)
  }
  return 'read'
}

async function abortedStream (req, res) {
  begin()
  res.finished.then(count)
  for (const piece of pieces(LARGE_BYTES, PIECE_BYTES)) if (!res.write(piece) && !await res.drained()) return
  res.end()
}

// By reference: it is in memory until it has left, or the client has.
function abortedLarge (req, res) {
  begin()
  counts.large++
  res.send(Buffer.alloc(LARGE_BYTES, 1))
}

// ---- behind a proxy ----

// From a timer, with some work before: a turn that no event of the network brings.
function later (req, res) {
  setTimeout(() => {
    const from = Date.now()
    while (Date.now() - from < BUSY_MS);
    res.send('later')
  }, 3)
}

const routes = {
  'POST /slow': readSlowly,
  'POST /whole': readWhole,
  'GET /write': write,
  'GET /iterable': (req) => iterate(bytesOf(req)),
  'GET /readable': (req) => Readable.from(pieces(bytesOf(req), PIECE_BYTES), { objectMode: false }),
  'GET /whole': whole,
  'POST /aborted/body': abortedBody,
  'GET /aborted/stream': abortedStream,
  'GET /aborted/large': abortedLarge,
  'GET /fixed': 'fixed',
  'GET /later': later,
  'POST /echo': (req) => req.bytes(),
  'POST /pipe': (req) => req.stream()
}

// More than once, with turns between: what one round lets go of is often what the next one collects.
async function collect () {
  for (let i = 0; i < 4; i++) {
    global.gc()
    await pause(10)
  }
}

async function main () {
  const inside = await open({ routes, limits: { bodyBytes: 1 << 30 }, timeouts: { ...DEFAULTS, ...timeouts } })
  const { server, stats } = inside
  process.on('message', async (what) => {
    if (what === 'close') {
      await server.close({ deadline: 0 })
      process.disconnect()
      return
    }
    if (what === 'leak') isLeaking = true
    inside.counts.length = 0
    await collect()
    const { connections, accepted, usedBytes } = stats()
    process.send({ ...counts, connections, accepted, usedBytes, descriptors: readdirSync('/proc/self/fd').length })
  })
  process.send({ port: server.port })
}

main()
