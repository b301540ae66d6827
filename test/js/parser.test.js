'use strict'
// parser: 'llhttp': what node:http takes and refuses; and both parsers of the native engine against
// each other. On node:http the option changes nothing, and our own checks come on top of llhttp's.

const { test } = require('node:test')
const assert = require('node:assert')
const http = require('node:http')
const { serve, probe } = require('../..')
const { start, connect } = require('./_client')

const INPUTS = 20000 // of the differential run; `node test/fuzz/h1_diff.mjs` makes more
const isNative = probe().ok
const skip = !isNative && 'node:http has one parser'

// Requests on which our own parser and llhttp differ, and some on which all agree.
const REQUESTS = {
  plain: 'GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n',
  'HTTP/1.0': 'GET / HTTP/1.0\r\n\r\n',
  'no Host': 'GET / HTTP/1.1\r\n\r\n',
  'two Hosts': 'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n',
  'a Host with a space': 'GET / HTTP/1.1\r\nHost: a b\r\n\r\n',
  'an unknown method': 'FOO / HTTP/1.1\r\nHost: x\r\n\r\n',
  'HTTP/1.2': 'GET / HTTP/1.2\r\nHost: x\r\n\r\n',
  'empty lines in front': '\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n',
  'two spaces': 'GET /  HTTP/1.1\r\nHost: x\r\n\r\n',
  'a fragment': 'GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n',
  'a user name': 'GET http://u@h/p HTTP/1.1\r\nHost: x\r\n\r\n',
  'another scheme': 'GET ftp://h/p HTTP/1.1\r\nHost: x\r\n\r\n',
  'no scheme': 'GET abc HTTP/1.1\r\nHost: x\r\n\r\n',
  'a folded field': 'GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n',
  'a bare LF': 'GET / HTTP/1.1\nHost: x\r\n\r\n',
  'a NUL': 'GET / HTTP/1.1\r\nHost: x\r\nA: b\0\r\n\r\n',
  'a space before the colon': 'GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n',
  'length and coding': 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  'two lengths': 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc',
  'a length with a sign': 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\nabc',
  'a length': 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc',
  chunks: 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n',
  'chunks in HTTP/1.0': 'POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n',
  'gzip, then chunked': 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n',
  'chunked, then gzip': 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n3\r\nabc\r\n0\r\n\r\n',
  'an unknown expectation': 'GET / HTTP/1.1\r\nHost: x\r\nExpect: y\r\n\r\n'
}

// The handler of both servers: what the parser gave, as a text.
const tell = (method, url, headers, body) => JSON.stringify([method, url, headers.host ?? null, body])

async function reference (t) {
  const server = http.createServer((req, res) => {
    let body = ''
    req.setEncoding('latin1').on('data', (text) => { body += text }).on('end', () => {
      const text = tell(req.method, req.url, req.headers, body)
      res.writeHead(200, { 'Content-Length': text.length }).end(text)
    })
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => { server.closeAllConnections(); server.close() })
  return { port: server.address().port }
}

async function answerOf (server, text) {
  const client = connect(server)
  try {
    client.write(text)
    const { status, body } = await client.next(text.split(' ')[0])
    return status === 200 ? [status, body] : [status]
  } finally {
    client.destroy()
  }
}

test('with llhttp, a request is taken or refused as by node:http', { skip }, async (t) => {
  const theirs = await reference(t)
  const ours = await start(t, {
    parser: 'llhttp',
    handler: async (req) => tell(req.method, req.url, req.headers, await req.text())
  })
  for (const [name, text] of Object.entries(REQUESTS)) {
    const [wanted, answer] = await Promise.all([answerOf(theirs, text), answerOf(ours, text)])
    assert.deepStrictEqual(answer, wanted, name)
  }
})

test('probe() tells whether llhttp can be had', () => {
  assert.deepStrictEqual(probe().capabilities.llhttp, { ok: true, reason: null, version: process.versions.llhttp })
})

test('the option takes two names', async (t) => {
  await assert.rejects(serve({ port: 0, host: '127.0.0.1', parser: 'http' }), { code: 'ERR_MILLRACE_OPTION', message: /parser/ })
  const server = await start(t, { parser: 'millrace', routes: { '/': 'hi' } })
  const status = isNative ? 200 : 400 // node:http has llhttp in any case
  assert.strictEqual((await answerOf(server, 'GET / HTTP/1.2\r\nHost: x\r\n\r\n'))[0], status)
})

test('both parsers serve side by side in one process', { skip }, async (t) => {
  const text = 'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n'
  const strict = await start(t, { routes: { '/': 'hi' } })
  const llhttp = await start(t, { parser: 'llhttp', routes: { '/': 'hi' } })
  assert.deepStrictEqual(await answerOf(llhttp, text), [200, 'hi'])
  assert.deepStrictEqual(await answerOf(strict, text), [400])
  assert.deepStrictEqual(await answerOf(llhttp, text), [200, 'hi'])
})

test('the parsers differ in nothing that is not listed', { skip }, async (t) => {
  const { load, run, Impossible } = await import('../fuzz/h1_diff.mjs')
  let addon
  try {
    addon = load()
  } catch (err) {
    if (!(err instanceof Impossible)) throw err
    t.skip(err.message)
    return
  }
  const { inputs, agreed, kinds, unlisted } = run(addon, INPUTS)
  assert.deepStrictEqual(unlisted, [])
  assert.ok(agreed > inputs / 2 && agreed < inputs)
  // Each kind has a seed; this one is of older versions of llhttp only.
  const unmet = Object.keys(kinds).filter((kind) => kinds[kind] === 0 && kind !== 'empty-coding')
  assert.deepStrictEqual(unmet, [])
})
