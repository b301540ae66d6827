'use strict'
// Which transport a server runs on, and what must not depend on it.

const test = require('node:test')
const assert = require('node:assert')
const net = require('node:net')
const { spawnSync } = require('node:child_process')
const { once } = require('node:events')
const { probe, serve } = require('../..')

const isNative = probe().ok
const skip = isNative ? false : 'the native engine is not in use'
const NAMES = process.platform === 'linux' ? ['epoll', 'uv'] : ['uv']
const PATIENCE = 20000 // only to end a test that hangs; nothing is measured by it
const BIG = 8 * 1024 * 1024 // more than the buffers of both sides hold

// Runs code with `m` for the module in a process of its own; what it prints is JSON.
function child (transport, code) {
  const env = { ...process.env, MILLRACE_TRANSPORT: transport }
  const text = `const m = require(${JSON.stringify(require.resolve('../..'))}); ${code}`
  const { stdout, stderr, status } = spawnSync(process.execPath, ['-e', text], { env, encoding: 'utf8', timeout: 60000 })
  assert.strictEqual(status, 0, stderr)
  return JSON.parse(stdout)
}

// A server on this transport, gone when the test is.
async function start (t, transport, options) {
  const before = process.env.MILLRACE_TRANSPORT
  process.env.MILLRACE_TRANSPORT = transport
  try {
    const server = await serve({ port: 0, host: '127.0.0.1', ...options })
    t.after(() => server.close({ deadline: 0 }))
    return server
  } finally {
    if (before === undefined) delete process.env.MILLRACE_TRANSPORT
    else process.env.MILLRACE_TRANSPORT = before
  }
}

const request = (path, close = true) => `GET ${path} HTTP/1.1\r\nHost: x\r\n${close ? 'Connection: close\r\n' : ''}\r\n`

// Reads to the end, with a pause after each piece; resolves to { bytes, error }.
async function readSlowly (socket, onPiece = () => {}) {
  const pieces = []
  let error = null
  socket.on('error', (err) => { error = err })
  socket.on('data', (piece) => {
    pieces.push(piece)
    socket.pause()
    onPiece(pieces)
    setImmediate(() => socket.resume())
  })
  await once(socket, 'close')
  return { bytes: Buffer.concat(pieces), error }
}

const bodyOf = (bytes) => bytes.subarray(bytes.indexOf('\r\n\r\n') + 4)

function pattern (size) {
  const bytes = Buffer.alloc(size)
  for (let i = 0; i + 4 <= size; i += 4) bytes.writeUInt32BE(i, i)
  return bytes
}

test('MILLRACE_TRANSPORT chooses, and probe() says so', { skip }, () => {
  const code = 'const { ok, transport, transportReason } = m.probe(); console.log(JSON.stringify({ ok, transport, transportReason }))'
  for (const name of NAMES) {
    assert.deepStrictEqual(child(name, code), { ok: true, transport: name, transportReason: `MILLRACE_TRANSPORT=${name} asks for it.` })
  }
  const { ok, transport, transportReason } = child('', code)
  assert.deepStrictEqual([ok, transport, typeof transportReason], [true, NAMES[0], 'string'])
})

test('a transport that is not there is an error, and probe() tells', { skip }, () => {
  const found = child('carrier-pigeon', `
    const { ok, reason } = m.probe()
    m.serve({ port: 0, handler: () => 'x' }).then(() => 'no error', (err) => err.code)
      .then((code) => console.log(JSON.stringify({ ok, reason, code })))`)
  assert.deepStrictEqual([found.ok, found.code], [false, 'ERR_MILLRACE_OPTION'])
  assert.match(found.reason, /MILLRACE_TRANSPORT is .*'uv'.* not 'carrier-pigeon'/)
})

for (const name of NAMES) {
  test(`${name}: a server keeps its process alive until it is closed, and no longer`, { skip }, () => {
    const found = child(name, `
      m.serve({ port: 0, host: '127.0.0.1', handler: () => 'x' }).then((server) => {
        const close = () => server.close().then(() => console.log(JSON.stringify({ isClosed: true })))
        setTimeout(close, 50).unref() // runs only if the server alone keeps the loop going
      })`)
    assert.deepStrictEqual(found, { isClosed: true })
  })

  test(`${name}: a large answer to a slow client is whole, and ends with a FIN`, { skip, timeout: PATIENCE }, async (t) => {
    const body = pattern(BIG)
    // So long a time-out cannot stand in for the FIN.
    const server = await start(t, name, { timeouts: { linger: 60000 }, routes: { '/': (req, res) => { res.send(body) } } })
    const sockets = Array.from({ length: 4 }, () => net.connect(server.port, '127.0.0.1'))
    for (const socket of sockets) socket.write(request('/'))
    for (const { bytes, error } of await Promise.all(sockets.map((socket) => readSlowly(socket)))) {
      assert.strictEqual(error, null)
      assert.ok(bodyOf(bytes).equals(body))
    }
  })

  test(`${name}: answers queued behind a large one keep their order`, { skip }, async (t) => {
    const body = pattern(BIG)
    const server = await start(t, name, { routes: { '/big': (req, res) => { res.send(body) }, '/small': () => 'small' } })
    const socket = net.connect(server.port, '127.0.0.1')
    socket.write(request('/big', false) + request('/small', false) + request('/big', false) + request('/small'))
    const { bytes, error } = await readSlowly(socket)
    assert.strictEqual(error, null)
    const second = bodyOf(bytes).subarray(BIG)
    const third = bodyOf(second).subarray('small'.length)
    assert.ok(bodyOf(bytes).subarray(0, BIG).equals(body))
    assert.ok(bodyOf(third).subarray(0, BIG).equals(body))
    assert.strictEqual(bodyOf(bodyOf(third).subarray(BIG)).toString(), 'small')
  })

  test(`${name}: memory that is transferred away while it is sent ends the connection, and no other octets leave`, { skip }, async (t) => {
    let lent = null
    const routes = { '/lent': (req, res) => { lent = Buffer.alloc(BIG, 'y'); res.send(lent) }, '/': () => 'fine' }
    const server = await start(t, name, { routes })
    const socket = net.connect(server.port, '127.0.0.1')
    socket.write(request('/lent'))
    const { bytes } = await readSlowly(socket, (pieces) => {
      if (pieces.length !== 1) return
      const moved = structuredClone(lent.buffer, { transfer: [lent.buffer] })
      new Uint8Array(moved).fill(0x7a) // whoever reads it still, sends a z
    })
    const body = bodyOf(bytes)
    assert.ok(body.length > 0 && body.length < BIG, `${body.length} octets`)
    assert.ok(body.every((octet) => octet === 0x79))
    const next = net.connect(server.port, '127.0.0.1')
    next.write(request('/'))
    assert.strictEqual(bodyOf((await readSlowly(next)).bytes).toString(), 'fine')
  })

  test(`${name}: clients that reset at any moment leave nothing behind`, { skip }, async (t) => {
    const body = pattern(BIG)
    const server = await start(t, name, {
      routes: { '/big': (req, res) => { res.send(body) }, '/late': () => new Promise((resolve) => setTimeout(resolve, 20, 'late')), '/': () => 'fine' },
      error: () => {}
    })
    const paths = ['/big', '/late', '/', null]
    await Promise.all(Array.from({ length: 200 }, async (_, i) => {
      const socket = net.connect(server.port, '127.0.0.1').on('error', () => {})
      await once(socket, 'connect')
      const path = paths[i % paths.length]
      if (path !== null) socket.write(request(path, i % 3 === 0))
      if (path === '/big') await once(socket, 'data')
      if (i % 2 === 0) socket.resetAndDestroy()
      else socket.destroy()
      if (!socket.closed) await once(socket, 'close')
    }))
    const last = net.connect(server.port, '127.0.0.1')
    last.write(request('/'))
    assert.strictEqual(bodyOf((await readSlowly(last)).bytes).toString(), 'fine')
  })
}
