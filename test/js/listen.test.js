'use strict'
// Where a server listens: ports, unix sockets, descriptors, systemd, several at once; what is said when
// it cannot; and the PROXY protocol.

const { test } = require('node:test')
const assert = require('node:assert')
const fs = require('node:fs')
const net = require('node:net')
const os = require('node:os')
const path = require('node:path')
const { spawn } = require('node:child_process')
const { once } = require('node:events')
const { serve, probe, MillraceError } = require('../..')
const { request, within } = require('./_client')

const isNative = probe().engine === 'native'
const nativeOnly = isNative ? false : 'node:http cannot do it'
const linuxOnly = process.platform === 'linux' ? false : 'Linux only'
const rootless = process.getuid?.() === 0 ? 'root may do everything' : false
const who = (req) => `${req.ip} ${req.port}`

function folder (t) {
  const made = fs.mkdtempSync(path.join(os.tmpdir(), 'mr-'))
  t.after(() => fs.rmSync(made, { recursive: true }))
  return made
}

async function open (t, options) {
  const server = await serve({ handler: who, ...options })
  t.after(() => server.close({ deadline: 0 }))
  return server
}

async function faultOf (t, options) {
  try {
    await open(t, options)
  } catch (err) {
    return err
  }
  assert.fail(`it listens: ${JSON.stringify(options)}`)
}

// All that comes back for these octets, until the server closes.
async function talk (where, ...pieces) {
  const socket = net.connect(typeof where === 'number' ? { port: where, host: '127.0.0.1' } : where)
  socket.setEncoding('latin1')
  socket.setNoDelay?.(true)
  let text = ''
  socket.on('data', (chunk) => { text += chunk })
  socket.on('error', () => {}) // a close with octets unread is a reset: 'close' follows
  const closed = new Promise((resolve) => socket.once('close', resolve))
  for (const piece of pieces) {
    if (!socket.destroyed) socket.write(piece, 'latin1')
    await new Promise((resolve) => setImmediate(resolve))
  }
  await within(closed, 'the end of the connection')
  return text
}

const ASK = request('GET', '/', { Connection: 'close' })

function bodyOf (text) {
  return text.slice(text.indexOf('\r\n\r\n') + 4)
}

async function ask (where) {
  return bodyOf(await talk(where, ASK))
}

// ---- unix sockets ----

test('a unix socket: its address, its clients, its end', async (t) => {
  const file = path.join(folder(t), 'a b#.sock')
  const server = await open(t, { path: file })
  assert.strictEqual(server.path, file)
  assert.strictEqual(server.port, 0)
  assert.strictEqual(server.host, '')
  assert.strictEqual(server.url, `unix:${file.replace('a b#', 'a%20b%23')}`)
  assert.strictEqual(await ask({ path: file }), ' 0')
  assert.ok(fs.lstatSync(file).isSocket())
  await server.close({ deadline: 0 })
  assert.ok(!fs.existsSync(file))
})

test('its mode: as given, else what the umask leaves', async (t) => {
  const made = folder(t)
  const modeOf = (file) => fs.lstatSync(file).mode & 0o777
  const files = ['a', 'b'].map((name) => path.join(made, name))
  await open(t, { path: files[0], mode: 0o604 })
  await open(t, { path: files[1] })
  assert.strictEqual(modeOf(files[0]), 0o604)
  assert.strictEqual(modeOf(files[1]), 0o777 & ~process.umask())
})

// A socket's file as a server leaves it that was killed.
async function stale (t) {
  const file = path.join(folder(t), 'stale.sock')
  const code = `require('net').createServer().listen(${JSON.stringify(file)}, () => process.kill(process.pid, 'SIGKILL'))`
  await once(spawn(process.execPath, ['-e', code]), 'close')
  assert.ok(fs.lstatSync(file).isSocket())
  return file
}

test('a file that nobody answers on is replaced', async (t) => {
  const file = await stale(t)
  await open(t, { path: file })
  assert.strictEqual(await ask({ path: file }), ' 0')
})

test('a file that somebody answers on is not', async (t) => {
  const file = path.join(folder(t), 'a.sock')
  await open(t, { path: file, handler: () => 'first' })
  const err = await faultOf(t, { path: file })
  assert.ok(err instanceof MillraceError)
  assert.strictEqual(err.code, 'ERR_MILLRACE_SOCKET_IN_USE')
  assert.strictEqual(err.cause.code, 'EADDRINUSE')
  assert.ok(err.message.includes(`Socket ${file} is in use`), err.message)
  assert.strictEqual(await ask({ path: file }), 'first')
})

test('what is no socket is left alone', async (t) => {
  const made = folder(t)
  const file = path.join(made, 'notes.txt')
  fs.writeFileSync(file, 'precious')
  const link = path.join(made, 'link')
  fs.symlinkSync(await stale(t), link)
  for (const each of [file, made, link]) {
    const err = await faultOf(t, { path: each })
    assert.strictEqual(err.code, 'ERR_MILLRACE_LISTEN')
    assert.match(err.message, /is no socket and is left alone/)
  }
  assert.strictEqual(fs.readFileSync(file, 'utf8'), 'precious')
  assert.ok(fs.lstatSync(link).isSymbolicLink())
})

test('the file of a server that took the path over stays', { skip: nativeOnly }, async (t) => {
  const file = path.join(folder(t), 'a.sock')
  const first = await open(t, { path: file })
  fs.renameSync(file, `${file}.old`)
  await open(t, { path: file, handler: () => 'second' })
  await first.close({ deadline: 0 })
  assert.strictEqual(await ask({ path: file }), 'second')
})

test('a missing folder and a file in its place are named', async (t) => {
  const made = folder(t)
  const missing = await faultOf(t, { path: path.join(made, 'no', 'a.sock') })
  assert.strictEqual(missing.code, isNative ? 'ERR_MILLRACE_LISTEN' : missing.code)
  if (isNative) assert.match(missing.message, /its folder does not exist/)
  fs.writeFileSync(path.join(made, 'file'), '')
  assert.match((await faultOf(t, { path: path.join(made, 'file', 'a.sock') })).message, /Socket .* cannot be|may not be made/)
})

test('a folder that may not be written to', { skip: rootless }, async (t) => {
  const made = folder(t)
  fs.chmodSync(made, 0o500)
  const err = await faultOf(t, { path: path.join(made, 'a.sock') })
  assert.strictEqual(err.code, 'ERR_MILLRACE_SOCKET_DENIED')
})

test('a path has at most 107 bytes', async (t) => {
  const made = folder(t)
  const longest = path.join(made, 'x'.repeat(107 - made.length - 1))
  await open(t, { path: longest })
  assert.strictEqual(await ask({ path: longest }), ' 0')
  const err = await faultOf(t, { path: `${longest}x` })
  assert.strictEqual(err.code, 'ERR_MILLRACE_OPTION')
  assert.match(err.message, /108 bytes/)
})

// Whether this Node fills such names up with NULs to the full length, so that they are others.
async function isPadding (t) {
  const name = `mr-padding-${process.pid}`
  const server = net.createServer().listen(`\0${name}`)
  t.after(() => server.close())
  await once(server, 'listening')
  return fs.readFileSync('/proc/net/unix', 'latin1').includes(`${name}@`)
}

test('a name without a file', { skip: linuxOnly }, async (t) => {
  const name = `\0mr-test-${process.pid}`
  const server = await open(t, { path: name })
  assert.strictEqual(server.url, `unix:@mr-test-${process.pid}`)
  if (isNative) assert.match(fs.readFileSync('/proc/net/unix', 'latin1'), new RegExp(` @mr-test-${process.pid}\n`))
  if (!isNative || !await isPadding(t)) assert.strictEqual(await ask({ path: name }), ' 0')
  const err = await faultOf(t, { path: name })
  assert.strictEqual(err.code, 'ERR_MILLRACE_SOCKET_IN_USE')
  await server.close({ deadline: 0 })
  await open(t, { path: name })
})

// ---- ports ----

test('ipv6Only refuses IPv4', async (t) => {
  const err = await open(t, { host: '::1', port: 0 }).catch((err) => err)
  if (err instanceof Error) return t.skip('there is no IPv6')
  const only = await open(t, { port: 0, ipv6Only: true })
  assert.strictEqual(only.url, `http://[::1]:${only.port}`)
  const listed = await open(t, { listen: [{ host: '::', port: 0, ipv6Only: true }, { host: '0.0.0.0', port: 0 }], ipv6Only: true })
  assert.deepStrictEqual(listed.addresses.map(({ url }) => url), [`http://[::1]:${listed.port}`, `http://127.0.0.1:${listed.addresses[1].port}`])
  assert.strictEqual((await fetch(only.url)).status, 200)
  assert.match(await ask({ port: only.port, host: '::1' }), /^::1 /)
  const socket = net.connect({ port: only.port, host: '127.0.0.1' })
  const [refused] = await once(socket, 'error')
  assert.strictEqual(refused.code, 'ECONNREFUSED')
})

test('a dual-stack server shows IPv4 clients by their own address', async (t) => {
  const server = await open(t, { port: 0 })
  assert.match(await ask(server.port), /^127\.0\.0\.1 \d+$/)
})

test('two servers share a port when both say so', { skip: nativeOnly }, async (t) => {
  const first = await open(t, { host: '127.0.0.1', port: 0, reusePort: true })
  const second = await open(t, { host: '127.0.0.1', port: first.port, reusePort: true })
  assert.strictEqual(second.port, first.port)
  const err = await faultOf(t, { host: '127.0.0.1', port: first.port })
  assert.strictEqual(err.code, 'ERR_MILLRACE_PORT_IN_USE')
})

test('reusePort on node:http: there, or refused', { skip: isNative ? 'the native engine runs' : false }, async (t) => {
  const server = await open(t, { host: '127.0.0.1', port: 0, reusePort: true }).catch((err) => err)
  if (server instanceof Error) assert.strictEqual(server.code, 'ERR_MILLRACE_UNSUPPORTED')
})

test('an address of another machine is named', async (t) => {
  const err = await faultOf(t, { host: '192.0.2.1', port: 0 })
  assert.strictEqual(err.code, 'ERR_MILLRACE_LISTEN')
  assert.match(err.message, /Port 0 on 192\.0\.2\.1 .* does not have that address/)
})

test('a name without an address is named', async (t) => {
  const err = await faultOf(t, { host: 'nowhere.invalid', port: 0 })
  assert.strictEqual(err.code, 'ERR_MILLRACE_LISTEN')
  assert.match(err.message, /nowhere\.invalid/)
})

// ---- several ----

test('several places at once, and the first is the server\'s', async (t) => {
  const file = path.join(folder(t), 'a.sock')
  const server = await open(t, { backlog: 16, listen: [{ host: '127.0.0.1', port: 0 }, { path: file, mode: 0o600 }, { host: '127.0.0.1', port: '0', backlog: 4 }] })
  const { addresses } = server
  assert.deepStrictEqual(addresses.map(({ path }) => path), [null, file, null])
  for (const name of ['url', 'host', 'port', 'path']) assert.strictEqual(server[name], addresses[0][name])
  assert.notStrictEqual(addresses[0].port, addresses[2].port)
  assert.ok(Object.isFrozen(addresses) && Object.isFrozen(addresses[1]))
  for (const { port, path } of addresses) assert.match(await ask(path === null ? port : { path }), path === null ? /^127\.0\.0\.1 / : /^ 0$/)
  await server.close({ deadline: 0 })
  for (const { port, path } of addresses) {
    const [err] = await once(net.connect(path === null ? { port, host: '127.0.0.1' } : { path }), 'error')
    assert.match(err.code, /^(ECONNREFUSED|ENOENT)$/)
  }
})

test('when one of several fails, none stays open', async (t) => {
  const taken = net.createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  t.after(() => taken.close())
  const file = path.join(folder(t), 'a.sock')
  const { port } = taken.address()
  const err = await faultOf(t, { listen: [{ path: file }, { host: '127.0.0.1', port }] })
  assert.strictEqual(err.code, 'ERR_MILLRACE_PORT_IN_USE')
  assert.ok(err.message.includes(String(port)), err.message)
  assert.ok(!fs.existsSync(file))
})

test('requests of all places are drained by close()', async (t) => {
  const file = path.join(folder(t), 'a.sock')
  let answer
  const called = new Promise((resolve) => { answer = resolve })
  const server = await open(t, { listen: [{ host: '127.0.0.1', port: 0 }, { path: file }], handler: (req, res) => answer(res) })
  const asked = ask({ path: file })
  const res = await within(called, 'the request')
  const closed = server.close({ grace: 0 })
  res.send('late')
  assert.strictEqual(await asked, 'late')
  await closed
})

// ---- options ----

const MISTAKES = [
  [{ path: '' }, /path/],
  [{ path: '\0' }, /path/],
  [{ path: 'a\0b' }, /path/],
  [{ path: 5 }, /path/],
  [{ path: '/x/a', port: 1 }, /three ways/],
  [{ path: '/x/a', host: 'a' }, /three ways/],
  [{ fd: 3, port: 1 }, /three ways/],
  [{ fd: 3, path: '/x/a' }, /three ways/],
  [{ port: 0, mode: 0o600 }, /mode goes with a path/],
  [{ path: '/x/a', reusePort: true }, /reusePort/],
  [{ path: '\0a', mode: 0o600 }, /mode/],
  [{ ipv6Only: 1 }, /ipv6Only/],
  [{ reusePort: 'yes' }, /reusePort/],
  [{ listen: 3000 }, /did you mean port\?/i],
  [{ listen: [] }, /1 to 16/],
  [{ listen: Array(17).fill({ port: 0 }) }, /17/],
  [{ listen: [5] }, /listen\[0\]/],
  [{ listen: [{ port: 0 }, {}] }, /listen\[1\]/],
  [{ listen: [{ prot: 0 }] }, /Did you mean port\?/],
  [{ listen: [{ port: 0 }], port: 1 }, /port and listen/],
  [{ listen: [{ port: 0 }], mode: 1 }, /mode and listen/],
  [{ listen: [{ fd: 5 }, { fd: 5 }] }, /Descriptor 5 is given twice/],
  [{ proxyProtocol: true }, /proxyProtocol/],
  [{ proxyProtocol: {} }, /proxyProtocol\.from/],
  [{ proxyProtocol: { from: [] } }, /proxyProtocol\.from/],
  [{ proxyProtocol: { from: ['10.0.0.0/33'] } }, /10\.0\.0\.0\/33/],
  [{ proxyProtocol: { from: ['10.0.0.0/08'] } }, /none of these/],
  [{ proxyProtocol: { from: ['::1/129'] } }, /::1\/129/],
  [{ proxyProtocol: { from: ['localhost'] } }, /localhost/],
  [{ proxyProtocol: { from: ['__proto__'] } }, /__proto__/],
  [{ proxyProtocol: { from: [5] } }, /5/],
  [{ proxyProtocol: { from: Array(257).fill('::1') } }, /256/],
  [{ proxyProtocol: { form: [] } }, /Did you mean from\?/]
]

for (const [given, message] of MISTAKES) {
  test(`a mistake is named: ${JSON.stringify(given).slice(0, 60)}`, async (t) => {
    const err = await faultOf(t, given)
    assert.strictEqual(err.code, 'ERR_MILLRACE_OPTION')
    assert.match(err.message, message)
  })
}

for (const [name, given] of [['mode', { path: '/x/a', mode: 0o1000 }], ['mode', { path: '/x/a', mode: -1 }], ['fd', { fd: -1 }], ['fd', { fd: 'systemX' }], ['listen[0].port', { listen: [{ port: 65536 }] }]]) {
  test(`out of bounds: ${JSON.stringify(given)}`, async (t) => {
    const err = await faultOf(t, given)
    assert.strictEqual(err.code, 'ERR_MILLRACE_OPTION_RANGE')
    assert.ok(err instanceof RangeError && err.message.includes(name), err.message)
  })
}

// ---- descriptors ----

// Runs the function in a process that has the sockets of `servers` as descriptors 3, 4, ... With
// `names` it is told of them as systemd does. It prints one line when it is ready, and is ended then.
async function child (t, servers, fn, { fds, pid = '$$', names = '', env = {} } = {}) {
  const code = `(${fn})(require(${JSON.stringify(path.join(__dirname, '..', '..'))}).serve)` +
    '.then((line) => console.log(line), (err) => console.log(`${err.code} ${err.message}`))'
  const shell = fds === undefined ? 'exec "$@"' : `LISTEN_PID=${pid} LISTEN_FDS=${fds} LISTEN_FDNAMES=${names} exec "$@"`
  const stdio = ['ignore', 'pipe', 'inherit', ...servers.map((server) => server._handle.fd)]
  const made = spawn('/bin/sh', ['-c', shell, 'sh', process.execPath, '-e', code], { stdio, env: { ...process.env, ...env } })
  const gone = once(made, 'close')
  for (const server of servers) server.close() // the child alone has them now
  t.after(async () => {
    made.kill('SIGKILL')
    await gone
  })
  const [line] = await within(once(made.stdout.setEncoding('utf8'), 'data'), 'the child')
  return line.trim()
}

async function listening (t, where = { port: 0, host: '127.0.0.1' }) {
  const server = net.createServer(() => assert.fail('the parent got a connection')).listen(where)
  await once(server, 'listening')
  t.after(() => server.close())
  return server
}

test('a socket that was inherited', { skip: linuxOnly }, async (t) => {
  const server = await listening(t)
  const { port } = server.address()
  const line = await child(t, [server], async (serve) => JSON.stringify(await serve({ fd: 3, handler: () => 'child' })))
  assert.deepStrictEqual(JSON.parse(line).addresses, [{ url: `http://127.0.0.1:${port}`, host: '127.0.0.1', port, path: null }])
})

test('an inherited socket is answered on, and closed with the server', { skip: linuxOnly }, async (t) => {
  const line = await child(t, [await listening(t)], async (serve) => {
    const made = await serve({ fd: 3, handler: () => 'child' })
    const body = await (await fetch(made.url, { headers: { connection: 'close' } })).text()
    await made.close({ grace: 0 })
    let left = 'open'
    try {
      require('fs').fstatSync(3).isSocket()
    } catch (err) {
      left = err.code
    }
    return `${body} ${left}`
  })
  assert.strictEqual(line, 'child EBADF')
})

test('systemd\'s sockets, all and by name', { skip: linuxOnly }, async (t) => {
  const file = path.join(folder(t), 'a.sock')
  const servers = [await listening(t), await listening(t, { path: file })]
  const { port } = servers[0].address()
  const all = await child(t, servers, async (serve) => JSON.stringify((await serve({ fd: 'systemd' })).addresses), { fds: 2, names: 'web:app' })
  assert.deepStrictEqual(JSON.parse(all).map(({ port, path }) => [port, path]), [[port, null], [0, isNative ? file : JSON.parse(all)[1].path]])
  const others = [await listening(t), await listening(t, { path: file })]
  const named = await child(t, others, async (serve) => JSON.stringify((await serve({ listen: [{ fd: 'systemd:app' }, { port: 0, host: '127.0.0.1' }] })).addresses), { fds: 2, names: 'web:app' })
  assert.deepStrictEqual(JSON.parse(named).map(({ host }) => host), ['', '127.0.0.1'])
})

const ABSENT = [
  [{}, /LISTEN_FDS is not set/],
  [{ fds: 0 }, /LISTEN_FDS is '0'/],
  [{ fds: 'many' }, /LISTEN_FDS is 'many'/],
  [{ fds: 1, pid: 1 }, /LISTEN_PID is '1', and this process is \d+/]
]

for (const [told, message] of ABSENT) {
  test(`systemd's sockets are missed: ${JSON.stringify(told)}`, { skip: linuxOnly }, async (t) => {
    const line = await child(t, [await listening(t)], async (serve) => serve({ fd: 'systemd' }), told)
    assert.match(line, /^ERR_MILLRACE_LISTEN There are no sockets of systemd/)
    assert.match(line, message)
  })
}

test('a name that systemd does not tell', { skip: linuxOnly }, async (t) => {
  const line = await child(t, [await listening(t)], async (serve) => serve({ fd: 'systemd:api' }), { fds: 1, names: 'web' })
  assert.match(line, /none is named 'api' in LISTEN_FDNAMES \('web'\)/)
})

test('descriptors that cannot be listened on are named, and left alone', { skip: nativeOnly }, async (t) => {
  const file = fs.openSync(__filename, 'r')
  t.after(() => fs.closeSync(file))
  for (const [fd, text] of [[file, 'is not a socket'], [999999, 'is not open']]) {
    const err = await faultOf(t, { fd })
    assert.strictEqual(err.code, 'ERR_MILLRACE_LISTEN')
    assert.ok(err.message.startsWith(`Descriptor ${fd} ${text}.`), err.message)
  }
  assert.ok(fs.fstatSync(file).isFile())
  const server = await listening(t)
  const client = net.connect(server.address().port, '127.0.0.1')
  server.removeAllListeners('connection')
  await once(client, 'connect')
  t.after(() => client.destroy())
  const { fd } = client._handle
  assert.ok((await faultOf(t, { fd })).message.startsWith(`Descriptor ${fd} is a socket that does not listen.`))
  assert.ok(fs.fstatSync(fd).isSocket())
})

// ---- the PROXY protocol ----

const SIGNATURE = '\r\n\r\n\0\r\nQUIT\n'
const V1 = 'PROXY TCP4 203.0.113.7 198.51.100.1 4711 80\r\n'
const V2 = `${SIGNATURE}\x21\x21\x00\x29\x20\x01\x0d\xb8${'\0'.repeat(11)}\x09${'\0'.repeat(16)}\x12\x34\x00\x50\x04\x00\x02xy`
const LOCAL = `${SIGNATURE}\x20\x00\x00\x00`

function behindProxy (t, options) {
  return open(t, { host: '127.0.0.1', port: 0, proxyProtocol: { from: ['loopback'] }, ...options })
}

test('PROXY headers name the client', { skip: nativeOnly }, async (t) => {
  const { port } = await behindProxy(t)
  assert.strictEqual(bodyOf(await talk(port, V1 + ASK)), '203.0.113.7 4711')
  assert.strictEqual(bodyOf(await talk(port, V2 + ASK)), '2001:db8::9 4660')
  assert.match(bodyOf(await talk(port, LOCAL + ASK)), /^127\.0\.0\.1 \d+$/)
  assert.match(bodyOf(await talk(port, `PROXY UNKNOWN\r\n${ASK}`)), /^127\.0\.0\.1 \d+$/)
})

test('PROXY headers in single octets, and all requests of the connection', { skip: nativeOnly }, async (t) => {
  const { port } = await behindProxy(t)
  for (const header of [V1, V2]) {
    const text = await talk(port, ...header, ...request('GET', '/'), ASK)
    assert.strictEqual(text.split(header === V1 ? '203.0.113.7 4711' : '2001:db8::9 4660').length, 3)
  }
  for (let cut = 1; cut < V2.length + 4; cut += 7) {
    assert.strictEqual(bodyOf(await talk(port, (V2 + ASK).slice(0, cut), (V2 + ASK).slice(cut))), '2001:db8::9 4660')
  }
})

test('without a sound PROXY header a trusted source is closed on, without a word', { skip: nativeOnly }, async (t) => {
  const { port } = await behindProxy(t)
  for (const text of [ASK, `PROXY TCP4 203.0.113.7 x 1 2\r\n${ASK}`, `PROXY UNKNOWN ${'x'.repeat(100)}\r\n${ASK}`, V2.replace('\x21', '\x22') + ASK, V1 + V1 + ASK]) {
    const answer = await talk(port, text)
    if (text.startsWith(V1)) assert.match(answer, /^HTTP\/1\.1 400 /) // the second is the request
    else assert.strictEqual(answer, '')
  }
})

test('a PROXY header has the time of a head, and is closed on without a word', { skip: nativeOnly }, async (t) => {
  const { port } = await behindProxy(t, { timeouts: { header: 100 } })
  assert.strictEqual(await talk(port, 'PROXY TCP4 '), '')
  assert.strictEqual(await talk(port), '')
  assert.match(await talk(port, `${V1}GET /`), /^HTTP\/1\.1 408 /)
})

test('other sources are plain, and believed in nothing', { skip: nativeOnly }, async (t) => {
  const server = await open(t, { host: '127.0.0.1', port: 0, proxyProtocol: { from: ['10.0.0.0/8', '::1', 'unix'] } })
  assert.match(await ask(server.port), /^127\.0\.0\.1 \d+$/)
  assert.match(await talk(server.port, V1 + ASK), /^HTTP\/1\.1 400 /)
})

test('clients of a unix socket may be proxies', { skip: nativeOnly }, async (t) => {
  const file = path.join(folder(t), 'a.sock')
  await open(t, { path: file, proxyProtocol: { from: 'unix' } })
  assert.strictEqual(bodyOf(await talk({ path: file }, V1 + ASK)), '203.0.113.7 4711')
  assert.strictEqual(bodyOf(await talk({ path: file }, LOCAL + ASK)), ' 0')
  assert.strictEqual(await talk({ path: file }, ASK), '')
})

test('node:http refuses proxyProtocol', { skip: isNative ? 'the native engine runs' : false }, async (t) => {
  const err = await faultOf(t, { port: 0, proxyProtocol: { from: 'loopback' } })
  assert.strictEqual(err.code, 'ERR_MILLRACE_UNSUPPORTED')
})
