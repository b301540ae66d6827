'use strict'
// Who a request is from when it came by proxies: Forwarded, X-Forwarded-*, and whom to believe.

const { test } = require('node:test')
const assert = require('node:assert')
const fs = require('node:fs')
const net = require('node:net')
const os = require('node:os')
const path = require('node:path')
const { serve } = require('../..')
const { start, ask } = require('./_client')

const OWN = { ip: '127.0.0.1', protocol: 'http', host: 'test', secure: false }

function tell ({ ip, port, protocol, host, secure }) {
  return { ip, port, protocol, host, secure }
}

// What a handler sees of a request from 127.0.0.1 with these headers.
async function seen (t, trustProxy, headers, target = '/') {
  const server = await start(t, { trustProxy, handler: tell })
  return JSON.parse((await ask(server, 'GET', target, headers)).body)
}

// Each row: headers, and what differs from the connection's own values.
const ROWS = {
  "with trustProxy 'loopback'": ['loopback', [
    [{}, {}],
    [{ 'X-Forwarded-For': '203.0.113.7' }, { ip: '203.0.113.7', port: 0 }],
    [{ 'X-Forwarded-For': '203.0.113.7:4711' }, { ip: '203.0.113.7', port: 4711 }],
    [{ 'x-forwarded-for': '2001:DB8:0:0::7' }, { ip: '2001:db8::7', port: 0 }],
    [{ 'X-Forwarded-For': '[2001:db8::7]:4711' }, { ip: '2001:db8::7', port: 4711 }],
    [{ 'X-Forwarded-For': '[2001:db8::7]' }, { ip: '2001:db8::7', port: 0 }],
    [{ 'X-Forwarded-For': '::ffff:203.0.113.7' }, { ip: '203.0.113.7', port: 0 }],
    [{ 'X-Forwarded-For': '::ffff:cb00:7107' }, { ip: '203.0.113.7', port: 0 }],
    // From the right, and no further than the first that is not trusted.
    [{ 'X-Forwarded-For': '198.51.100.1, 203.0.113.7' }, { ip: '203.0.113.7', port: 0 }],
    [{ 'X-Forwarded-For': '198.51.100.1,\t203.0.113.7 , 127.0.0.9,::1' }, { ip: '203.0.113.7', port: 0 }],
    [{ 'X-Forwarded-For': '127.0.0.8, 127.0.0.9' }, { ip: '127.0.0.8', port: 0 }],
    // What is malformed ends the walk.
    [{ 'X-Forwarded-For': 'unknown' }, {}],
    [{ 'X-Forwarded-For': '' }, {}],
    [{ 'X-Forwarded-For': '203.0.113.7, unknown' }, {}],
    [{ 'X-Forwarded-For': '203.0.113.7, unknown, 127.0.0.9' }, { ip: '127.0.0.9', port: 0 }],
    [{ 'X-Forwarded-For': '203.0.113.256' }, {}],
    [{ 'X-Forwarded-For': '203.0.113.07' }, {}],
    [{ 'X-Forwarded-For': '203.0.113.7:65536' }, {}],
    [{ 'X-Forwarded-For': '203.0.113.7:' }, {}],
    [{ 'X-Forwarded-For': '203.0.113.7:1:2' }, {}],
    [{ 'X-Forwarded-For': '[203.0.113.7]' }, {}],
    [{ 'X-Forwarded-For': 'fe80::1%eth0' }, {}],
    [{ 'X-Forwarded-For': '"203.0.113.7"' }, {}],
    [{ 'X-Forwarded-For': '203.0.113.7 198.51.100.1' }, {}],
    // Protocol and host.
    [{ 'X-Forwarded-Proto': 'https' }, { protocol: 'https', secure: true }],
    [{ 'X-Forwarded-Proto': 'HTTPS', 'X-Forwarded-Host': 'Example.com:8443' }, { protocol: 'https', secure: true, host: 'Example.com:8443' }],
    [{ 'X-Forwarded-Proto': 'wss' }, {}],
    [{ 'X-Forwarded-Proto': 'http, https' }, { protocol: 'https', secure: true }],
    [{ 'X-Forwarded-Proto': 'https, http' }, {}],
    [{ 'X-Forwarded-Host': 'a/b' }, {}],
    [{ 'X-Forwarded-Host': '' }, {}],
    [{ 'X-Forwarded-Host': 'evil.test, example.com' }, { host: 'example.com' }],
    [{ 'X-Forwarded-Host': '[::1]:80' }, { host: '[::1]:80' }],
    // One item for each hop: that of the hop which is the client's.
    [{ 'X-Forwarded-For': '198.51.100.1, 203.0.113.7, 127.0.0.9', 'X-Forwarded-Proto': 'http, https, http' }, { ip: '203.0.113.7', port: 0, protocol: 'https', secure: true }],
    [{ 'X-Forwarded-For': '203.0.113.7, 127.0.0.9', 'X-Forwarded-Proto': 'https' }, { ip: '203.0.113.7', port: 0, protocol: 'https', secure: true }],
    // RFC 7239.
    [{ Forwarded: 'for=203.0.113.7' }, { ip: '203.0.113.7', port: 0 }],
    [{ Forwarded: 'For="203.0.113.7:4711";Proto=https;Host=example.com' }, { ip: '203.0.113.7', port: 4711, protocol: 'https', secure: true, host: 'example.com' }],
    [{ Forwarded: 'for="[2001:DB8::7]:4711";host="example.com:8443";by=_x' }, { ip: '2001:db8::7', port: 4711, host: 'example.com:8443' }],
    [{ Forwarded: 'for="203.0.113.7:_port"' }, { ip: '203.0.113.7', port: 0 }],
    [{ Forwarded: 'for="\\203.0.113\\.7"' }, { ip: '203.0.113.7', port: 0 }],
    [{ Forwarded: 'for=198.51.100.1, for=203.0.113.7;proto=https, for=127.0.0.9' }, { ip: '203.0.113.7', port: 0, protocol: 'https', secure: true }],
    [{ Forwarded: 'for=203.0.113.7;proto=http, for=127.0.0.9;proto=https;host=near' }, { ip: '203.0.113.7', port: 0, host: 'near' }],
    [{ Forwarded: 'for=198.51.100.1;proto=https;host=evil, for=203.0.113.7' }, { ip: '203.0.113.7', port: 0 }],
    [{ Forwarded: ' for=203.0.113.7 ; proto=https ,, ' }, { ip: '203.0.113.7', port: 0, protocol: 'https', secure: true }],
    [{ Forwarded: 'for=unknown;proto=https' }, { protocol: 'https', secure: true }],
    [{ Forwarded: 'for=203.0.113.7, for=_hidden' }, {}],
    [{ Forwarded: 'proto=https' }, { protocol: 'https', secure: true }],
    // Not what RFC 7239 says: nothing of the line counts.
    [{ Forwarded: 'for=203.0.113.7:4711' }, {}],
    [{ Forwarded: 'for=[2001:db8::7]' }, {}],
    [{ Forwarded: 'for="2001:db8::7"' }, {}],
    [{ Forwarded: 'for=203.0.113.7;for=198.51.100.1' }, {}],
    [{ Forwarded: 'for = 203.0.113.7' }, {}],
    [{ Forwarded: 'for="203.0.113.7' }, {}],
    [{ Forwarded: 'for=198.51.100.1;x=", for=203.0.113.7' }, {}],
    [{ Forwarded: 'for=198.51.100.1;x=", for="203.0.113.7"' }, {}],
    [{ Forwarded: 'for=203.0.113.7;proto' }, {}],
    [{ Forwarded: 'for=203.0.113.7;host="a b"' }, { ip: '203.0.113.7', port: 0 }],
    // Which kind.
    [{ Forwarded: 'for=198.51.100.1;host=evil;proto=https', 'X-Forwarded-For': '203.0.113.7' }, { ip: '203.0.113.7', port: 0 }],
    [{ Forwarded: 'for=198.51.100.1', 'X-Forwarded-Proto': 'https' }, { protocol: 'https', secure: true }]
  ]],
  'with two headers named': [{ from: ['loopback'], headers: ['X-Forwarded-For', 'x-forwarded-proto'] }, [
    [{ 'X-Forwarded-For': '203.0.113.7', 'X-Forwarded-Host': 'evil' }, { ip: '203.0.113.7', port: 0 }],
    [{ 'X-Forwarded-Host': 'evil' }, {}],
    [{ Forwarded: 'for=198.51.100.1;host=evil' }, {}]
  ]],
  'with forwarded named': [{ from: '127.0.0.1', headers: ['forwarded'] }, [
    [{ Forwarded: 'for=203.0.113.7', 'X-Forwarded-For': '198.51.100.1', 'X-Forwarded-Host': 'evil' }, { ip: '203.0.113.7', port: 0 }],
    [{ 'X-Forwarded-For': '198.51.100.1' }, {}]
  ]],
  'with CIDRs': [['127.0.0.0/8', '198.51.100.0/24', '2001:db8::/33', '::ffff:192.0.2.0/120'], [
    [{ 'X-Forwarded-For': '203.0.113.7, 198.51.100.255, 2001:db8:7fff::1, 192.0.2.9' }, { ip: '203.0.113.7', port: 0 }],
    [{ 'X-Forwarded-For': '203.0.113.7, 198.51.101.0' }, { ip: '198.51.101.0', port: 0 }],
    [{ 'X-Forwarded-For': '203.0.113.7, 2001:db8:8000::1' }, { ip: '2001:db8:8000::1', port: 0 }]
  ]],
  'with everybody trusted': ['0.0.0.0/0', [
    [{ 'X-Forwarded-For': '203.0.113.7, 198.51.100.1' }, { ip: '203.0.113.7', port: 0 }],
    [{ 'X-Forwarded-For': '203.0.113.7, ::1, 198.51.100.1' }, { ip: '::1', port: 0 }]
  ]],
  'when the peer is not trusted': [['10.0.0.0/8', 'uniquelocal', 'linklocal', 'unix', '::1', '127.0.0.2', '127.0.0.0/32'], [
    [{ 'X-Forwarded-For': '203.0.113.7', 'X-Forwarded-Proto': 'https', 'X-Forwarded-Host': 'evil' }, {}],
    [{ Forwarded: 'for=203.0.113.7;proto=https;host=evil' }, {}]
  ]],
  'without trustProxy': [undefined, [
    [{ 'X-Forwarded-For': '203.0.113.7', 'X-Forwarded-Proto': 'https', 'X-Forwarded-Host': 'evil' }, {}],
    [{ Forwarded: 'for=203.0.113.7;proto=https;host=evil' }, {}]
  ]]
}

for (const [what, [trustProxy, rows]] of Object.entries(ROWS)) {
  test(what, async (t) => {
    const server = await start(t, { trustProxy, handler: tell })
    for (const [headers, told] of rows) {
      const { port, ...rest } = JSON.parse((await ask(server, 'GET', '/', headers)).body)
      const { port: toldPort, ...toldRest } = told
      assert.deepStrictEqual(rest, { ...OWN, ...toldRest }, JSON.stringify(headers))
      if (toldPort === undefined) assert.ok(port > 0, JSON.stringify(headers))
      else assert.strictEqual(port, toldPort, JSON.stringify(headers))
    }
  })
}

test('lines of one field are one list; a broken line ends it, and hides nothing behind it', async (t) => {
  const server = await start(t, { trustProxy: 'loopback', handler: tell })
  const lines = async (name, values) => {
    const pairs = values.map((value) => `${name}: ${value}`).join('\r\n')
    const socket = net.connect(server.port, '127.0.0.1')
    socket.write(`GET / HTTP/1.1\r\nHost: test\r\n${pairs}\r\nConnection: close\r\n\r\n`)
    let text = ''
    for await (const chunk of socket) text += chunk
    return JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4)).ip
  }
  assert.strictEqual(await lines('X-Forwarded-For', ['198.51.100.1', '203.0.113.7', '127.0.0.9']), '203.0.113.7')
  assert.strictEqual(await lines('Forwarded', ['for=198.51.100.1, for=203.0.113.7', 'for=127.0.0.9']), '203.0.113.7')
  assert.strictEqual(await lines('Forwarded', ['for="198.51.100.1', 'for=203.0.113.7']), '203.0.113.7')
  assert.strictEqual(await lines('Forwarded', ['for=203.0.113.7', 'for="', 'for=127.0.0.9']), '127.0.0.9')
})

test('a whole URL as the target: its host, unless a trusted proxy tells another', async (t) => {
  const target = 'http://in.target/x'
  assert.strictEqual((await seen(t, 'loopback', {}, target)).host, 'in.target')
  assert.strictEqual((await seen(t, 'loopback', { 'X-Forwarded-Host': 'told' }, target)).host, 'told')
})

test('web() has the URL that the client asked for', async (t) => {
  const server = await start(t, { trustProxy: 'loopback', handler: (req) => req.web().url })
  const { body } = await ask(server, 'GET', '/x?y', { 'X-Forwarded-Proto': 'https', 'X-Forwarded-Host': 'example.com' })
  assert.strictEqual(body, 'https://example.com/x?y')
})

test('a proxy at a unix socket', async (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'mr-'))
  t.after(() => fs.rmSync(folder, { recursive: true }))
  for (const [trustProxy, ip] of [['unix', '203.0.113.7'], ['loopback', '']]) {
    const file = path.join(folder, 'a.sock')
    const server = await serve({ path: file, trustProxy, handler: (req) => ({ ip: req.ip }) })
    const socket = net.connect({ path: file })
    socket.write('GET / HTTP/1.1\r\nHost: test\r\nX-Forwarded-For: 203.0.113.7\r\nConnection: close\r\n\r\n')
    let text = ''
    for await (const chunk of socket) text += chunk
    assert.strictEqual(JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4)).ip, ip)
    await server.close({ deadline: 0 })
  }
})

test('it stays readable after the client has gone', async (t) => {
  let kept
  const server = await start(t, { trustProxy: 'loopback', handler: (req) => { kept = req; return 'x' } })
  await ask(server, 'GET', '/', { 'X-Forwarded-For': '203.0.113.7', 'X-Forwarded-Proto': 'https' })
  await server.close({ deadline: 0 })
  assert.deepStrictEqual([kept.ip, kept.port, kept.protocol, kept.secure], ['203.0.113.7', 0, 'https', true])
})

test('a list as long as a head may be is no burden', async (t) => {
  const server = await start(t, { trustProxy: '0.0.0.0/0', handler: tell })
  const long = `203.0.113.7${', 198.51.100.1'.repeat(1000)}`
  assert.strictEqual(JSON.parse((await ask(server, 'GET', '/', { 'X-Forwarded-For': long })).body).ip, '203.0.113.7')
  const quoted = `for=203.0.113.7;x="${'\\"'.repeat(6000)}`
  assert.strictEqual(JSON.parse((await ask(server, 'GET', '/', { Forwarded: quoted })).body).ip, '127.0.0.1')
})

const MISTAKES = [
  [true, /true would let every client/],
  [5, /trustProxy is a list/],
  [[], /trustProxy is a list/],
  [['10.0.0.0/8', 'lan'], /'lan' is none of these/],
  [['10.0.0.0/'], /none of these/],
  [['10.0.0.0/8/8'], /none of these/],
  [['::ffff:10.0.0.0/95'], /none of these/],
  [['fe80::1%eth0'], /none of these/],
  [['1.2.3.4:80'], /none of these/],
  [{}, /trustProxy\.from/],
  [{ from: 'loopback', header: [] }, /Did you mean headers\?/],
  [{ from: 'loopback', headers: [] }, /trustProxy\.headers/],
  [{ from: 'loopback', headers: ['x-real-ip'] }, /'x-real-ip' is none of these/]
]

for (const [trustProxy, message] of MISTAKES) {
  test(`a mistake is named: ${JSON.stringify(trustProxy)}`, async () => {
    await assert.rejects(serve({ port: 0, trustProxy }), (err) => err.code === 'ERR_MILLRACE_OPTION' && message.test(err.message))
  })
}

test('nobody is trusted by false and null', async (t) => {
  for (const trustProxy of [false, null]) assert.strictEqual((await seen(t, trustProxy, { 'X-Forwarded-For': '203.0.113.7' })).ip, '127.0.0.1')
})
