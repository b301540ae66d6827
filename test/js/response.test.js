'use strict'
// The response object: setters, ways to answer, and what it refuses.

const { test } = require('node:test')
const assert = require('node:assert')
const { setTimeout: sleep } = require('node:timers/promises')
const { template, reply, query } = require('../..')
const { start, ask, exchange, request, connect, deferred, quiet } = require('./_client')

// Runs one handler and gives the response.
async function answered (t, handler, method = 'GET') {
  const server = await start(t, { handler })
  return ask(server, method, '/?q=1')
}

// The code of what a call on res throws.
async function codeOf (t, call) {
  const called = deferred()
  const server = await start(t, {
    handler (req, res) {
      try {
        call(res, req)
        called.resolve('nothing thrown')
      } catch (err) {
        called.resolve(err.code)
      }
    }
  })
  const client = connect(server)
  client.write(request('GET', '/'))
  const code = await called.promise
  client.destroy()
  return code
}

test('setters chain, and the order of headers is the order of setting', async (t) => {
  const response = await answered(t, (req, res) => {
    res.status(202).header('X-B', 'b').header('X-A', 1).headers({ 'X-C': 'c', 'X-D': ['1', '2'] }).send('x')
  })
  assert.strictEqual(response.line, 'HTTP/1.1 202 Accepted')
  assert.deepStrictEqual(response.lines.slice(0, 6), ['Content-Type: text/plain; charset=utf-8', 'X-B: b', 'X-A: 1', 'X-C: c', 'X-D: 1', 'X-D: 2'])
  assert.match(response.lines[6], /^Content-Length: 1$/)
  assert.match(response.lines[7], /^Date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/)
  assert.strictEqual(response.lines.length, 8)
})

test('a header that is set again is replaced, whatever its case, and keeps its place', async (t) => {
  const response = await answered(t, (req, res) => {
    res.header('X-A', ['1', '2']).header('X-B', 'b').header('x-a', '3').send('')
  })
  assert.deepStrictEqual(response.lines.slice(1, 3), ['x-a: 3', 'X-B: b'])
})

test('an empty list takes a header away', async (t) => {
  const response = await answered(t, (req, res) => res.type('html').header('Content-Type', []).send('x'))
  assert.strictEqual(response.headers['content-type'], 'text/plain; charset=utf-8')
})

test('headers() takes pairs, a Map and web Headers', async (t) => {
  const response = await answered(t, (req, res) => {
    res.headers([['Set-Cookie', 'a'], ['Set-Cookie', 'b']]).headers(new Map([['X-M', '1']])).headers(new Headers({ 'x-h': '2' })).end()
  })
  assert.strictEqual(response.headers['set-cookie'], 'a, b')
  assert.strictEqual(response.headers['x-m'], '1')
  assert.strictEqual(response.headers['x-h'], '2')
})

test('type() knows short names and takes full ones', async (t) => {
  const server = await start(t, { routes: { '/:type': (req, res) => res.type(req.params.type).send('x') } })
  const type = async (name) => (await ask(server, 'GET', `/${name}`)).headers['content-type']
  assert.strictEqual(await type('json'), 'application/json')
  assert.strictEqual(await type('html'), 'text/html; charset=utf-8')
  assert.strictEqual(await type('text'), 'text/plain; charset=utf-8')
  assert.strictEqual(await type('image%2fpng'), 'image/png')
  assert.strictEqual(await codeOf(t, (res) => res.type('jsno')), 'ERR_MILLRACE_HEADER')
})

test('send() takes what a handler can return at once', async (t) => {
  const server = await start(t, {
    routes: {
      '/text': (req, res) => res.send('t'),
      '/bytes': (req, res) => res.send(new Uint8Array([66])),
      '/memory': (req, res) => res.send(new Uint8Array([67]).buffer),
      '/json': (req, res) => res.send({ a: 1 }),
      '/null': (req, res) => res.send(null),
      '/nothing': (req, res) => res.end(),
      '/end': (req, res) => res.end('e'),
      '/value': (req, res) => res.json('quoted'),
      '/json-null': (req, res) => res.json(null)
    }
  })
  const got = async (path) => {
    const { status, headers, body } = await ask(server, 'GET', path)
    return [status, headers['content-type'], headers['content-length'], body]
  }
  assert.deepStrictEqual(await got('/text'), [200, 'text/plain; charset=utf-8', '1', 't'])
  assert.deepStrictEqual(await got('/bytes'), [200, 'application/octet-stream', '1', 'B'])
  assert.deepStrictEqual(await got('/memory'), [200, 'application/octet-stream', '1', 'C'])
  assert.deepStrictEqual(await got('/json'), [200, 'application/json', '7', '{"a":1}'])
  assert.deepStrictEqual(await got('/null'), [200, undefined, '0', ''])
  assert.deepStrictEqual(await got('/nothing'), [200, undefined, '0', ''])
  assert.deepStrictEqual(await got('/end'), [200, 'text/plain; charset=utf-8', '1', 'e'])
  assert.deepStrictEqual(await got('/value'), [200, 'application/json', '8', '"quoted"'])
  assert.deepStrictEqual(await got('/json-null'), [200, 'application/json', '4', 'null'])
})

test('send() refuses what it cannot send', async (t) => {
  for (const value of [5, true, 5n, Symbol('s'), () => {}, new Map(), Promise.resolve('x'), new Response('x'), new Blob(['x']).stream()]) {
    assert.strictEqual(await codeOf(t, (res) => res.send(value)), 'ERR_MILLRACE_BODY_TYPE', String(value))
  }
  assert.strictEqual(await codeOf(t, (res) => res.json(undefined)), 'ERR_MILLRACE_BODY_TYPE')
  assert.strictEqual(await codeOf(t, (res) => res.json(() => {})), 'ERR_MILLRACE_BODY_TYPE')
})

test('redirect() sets Location, 302 unless told otherwise', async (t) => {
  const server = await start(t, {
    routes: {
      '/a': (req, res) => res.redirect('/grüße b?x=%20&y#z'),
      '/b': (req, res) => res.redirect(new URL('http://other.test/x'), 308)
    }
  })
  const first = await ask(server, 'GET', '/a')
  assert.strictEqual(first.status, 302)
  assert.strictEqual(first.headers.location, '/gr%C3%BC%C3%9Fe%20b?x=%20&y#z')
  assert.strictEqual(first.headers['content-length'], '0')
  const second = await ask(server, 'GET', '/b')
  assert.strictEqual(second.status, 308)
  assert.strictEqual(second.headers.location, 'http://other.test/x')
  assert.strictEqual(await codeOf(t, (res) => res.redirect('/', 200)), 'ERR_MILLRACE_STATUS')
  assert.strictEqual(await codeOf(t, (res) => res.redirect('/\r\nX: 1')), 'ERR_MILLRACE_HEADER')
})

test('a bad status throws', async (t) => {
  for (const status of [99, 100, 101, 103, 199, 600, 1000, 200.5, '200', NaN, undefined, null]) {
    assert.strictEqual(await codeOf(t, (res) => res.status(status)), 'ERR_MILLRACE_STATUS', String(status))
  }
})

test('the status may be any from 200 to 599', async (t) => {
  const server = await start(t, { routes: { '/:status': (req, res) => res.status(Number(req.params.status)).send('x') } })
  assert.strictEqual((await ask(server, 'GET', '/599')).line.slice(0, 13), 'HTTP/1.1 599 ')
  assert.strictEqual((await ask(server, 'GET', '/299')).body, 'x')
})

test('a bad header name or value throws', async (t) => {
  for (const name of ['', 'a b', 'a:', 'a\r\n', 'é', undefined, 5]) {
    assert.strictEqual(await codeOf(t, (res) => res.header(name, 'x')), 'ERR_MILLRACE_HEADER', String(name))
  }
  for (const value of ['a\r\nb', 'a\nb', 'a\0b', 'a\x7fb', '\u0100', undefined, null, {}, ['ok', 'a\rb'], true]) {
    assert.strictEqual(await codeOf(t, (res) => res.header('X', value)), 'ERR_MILLRACE_HEADER', String(value))
  }
  assert.strictEqual(await codeOf(t, (res) => res.headers('X: y')), 'ERR_MILLRACE_HEADER')
  assert.strictEqual(await codeOf(t, (res) => res.headers([['X']])), 'ERR_MILLRACE_HEADER')
})

test('a header that throws leaves the response usable', async (t) => {
  const response = await answered(t, (req, res) => {
    assert.throws(() => res.header('X', 'a\nb'))
    res.header('X', 'fine').send('x')
  })
  assert.strictEqual(response.headers.x, 'fine')
})

test('latin1 header values are single octets on the wire, also before a UTF-8 body', async (t) => {
  const response = await answered(t, (req, res) => res.header('X-L', 'caf\xe9').send('ü'))
  assert.ok(response.raw.includes('X-L: caf\xe9\r\n'))
  assert.strictEqual(response.body, 'ü')
})

test('Content-Length may be said when it is right', async (t) => {
  const response = await answered(t, (req, res) => res.header('Content-Length', 2).send('ü'))
  assert.strictEqual(response.lines.filter((line) => /^content-length/i.test(line)).length, 1)
  assert.strictEqual(response.body, 'ü')
  assert.strictEqual(await codeOf(t, (res) => res.header('Content-Length', 3).send('ü')), 'ERR_MILLRACE_LENGTH')
  assert.strictEqual(await codeOf(t, (res) => res.header('Content-Length', '-1')), 'ERR_MILLRACE_LENGTH')
  assert.strictEqual(await codeOf(t, (res) => res.header('Content-Length', '1, 1')), 'ERR_MILLRACE_LENGTH')
})

test('HEAD may have a Content-Length without a body', async (t) => {
  const response = await answered(t, (req, res) => res.header('Content-Length', 1234).end(), 'HEAD')
  assert.strictEqual(response.headers['content-length'], '1234')
})

test('HEAD has the head of GET and no body', async (t) => {
  const server = await start(t, { handler: () => 'twelve bytes' })
  const [head, get] = await exchange(server, request('HEAD', '/') + request('GET', '/'), ['HEAD', 'GET'])
  assert.strictEqual(head.headers['content-length'], '12')
  assert.deepStrictEqual(head.lines.filter((line) => !line.startsWith('Date')), get.lines.filter((line) => !line.startsWith('Date')))
  assert.strictEqual(get.body, 'twelve bytes')
})

test('Transfer-Encoding is refused', async (t) => {
  assert.strictEqual(await codeOf(t, (res) => res.header('Transfer-Encoding', 'chunked')), 'ERR_MILLRACE_HEADER')
})

test('Connection: close closes, and other Connection values are dropped', async (t) => {
  const server = await start(t, {
    routes: {
      '/close': (req, res) => res.header('Connection', 'close').send('bye'),
      '/keep': (req, res) => res.header('Connection', 'keep-alive').send('stay')
    }
  })
  const client = connect(server)
  t.after(() => client.destroy())
  client.write(request('GET', '/keep'))
  assert.strictEqual((await client.next()).headers.connection, undefined)
  client.write(request('GET', '/close'))
  const response = await client.next()
  assert.strictEqual(response.lines.at(-1), 'Connection: close')
  assert.strictEqual(response.body, 'bye')
  assert.strictEqual(await client.ended(), '')
})

test('a Date of its own is kept and none is added', async (t) => {
  const response = await answered(t, (req, res) => res.header('Date', 'Thu, 01 Jan 1970 00:00:00 GMT').send('x'))
  assert.deepStrictEqual(response.lines.filter((line) => line.startsWith('Date')), ['Date: Thu, 01 Jan 1970 00:00:00 GMT'])
})

test('204, 205 and 304 send no body', async (t) => {
  const server = await start(t, { routes: { '/:status': (req, res) => res.status(Number(req.params.status)).header('X', 'y').send('body') } })
  const responses = await exchange(server, ['204', '304', '205', '200'].map((status) => request('GET', `/${status}`)).join(''), ['GET', 'GET', 'GET', 'GET'])
  assert.deepStrictEqual(responses.map(({ status, body }) => [status, body]), [[204, ''], [304, ''], [205, ''], [200, 'body']])
  assert.deepStrictEqual(responses.map(({ headers }) => headers['content-length']), [undefined, undefined, '0', '4'])
  assert.strictEqual(responses[0].headers['content-type'], undefined)
  assert.strictEqual(responses[0].headers.x, 'y')
})

test('a second answer throws, and the first one stands', async (t) => {
  const codes = []
  const server = await start(t, {
    handler (req, res) {
      res.send('first')
      for (const call of [() => res.send('2'), () => res.json(2), () => res.end(), () => res.redirect('/'), () => res.reply(template(), 'x'), () => res.status(500), () => res.header('X', 'y')]) {
        try {
          call()
        } catch (err) {
          codes.push(err.code)
        }
      }
    }
  })
  const [first, second] = await exchange(server, request('GET', '/').repeat(2), ['GET', 'GET'])
  assert.strictEqual(first.body, 'first')
  assert.strictEqual(second.body, 'first')
  assert.deepStrictEqual(codes, Array(14).fill('ERR_MILLRACE_ALREADY_ANSWERED'))
})

test('sent says whether an answer was given', async (t) => {
  const seen = []
  await answered(t, (req, res) => {
    seen.push(res.sent)
    seen.push(res.send('x'))
    seen.push(res.sent)
  })
  assert.deepStrictEqual(seen, [false, true, true])
})

test('finished resolves to true once the answer left', async (t) => {
  const done = deferred()
  await answered(t, (req, res) => {
    done.resolve(res.finished)
    assert.strictEqual(res.finished, res.finished)
    res.send('x')
  })
  assert.strictEqual(await done.promise, true)
})

test('finished waits until all of a large answer has left, and is false when the client resets before', async (t) => {
  const given = deferred()
  const server = await start(t, {
    handler (req, res) {
      given.resolve({ outcome: res.finished })
      res.send(Buffer.alloc(64 << 20))
    }
  })
  const client = connect(server)
  client.socket.pause()
  client.write(request('GET', '/'))
  const { outcome } = await given.promise
  assert.strictEqual(await Promise.race([outcome, sleep(300, 'waits')]), 'waits')
  client.reset()
  assert.strictEqual(await outcome, false)
})

test('finished asked for afterwards resolves as well', async (t) => {
  const held = deferred()
  await answered(t, (req, res) => {
    held.resolve(res)
    return 'x'
  })
  const res = await held.promise
  await new Promise((resolve) => setImmediate(resolve))
  assert.strictEqual(await res.finished, true)
})

test('after the client has gone, answers do nothing and say false', async (t) => {
  const came = deferred()
  const server = await start(t, { handler (req, res) { came.resolve({ req, res }) } })
  const client = connect(server)
  client.write(request('GET', '/'))
  const { req, res } = await came.promise
  const outcome = res.finished
  client.reset()
  assert.strictEqual(await outcome, false)
  assert.strictEqual(req.aborted, true)
  assert.strictEqual(res.send('x'), false)
  assert.strictEqual(res.send('x'), false)
  assert.strictEqual(res.json({}), false)
  assert.strictEqual(res.status(500).header('X', 'y').end(), false)
  assert.strictEqual(res.reply(template(), 'x'), false)
  assert.strictEqual(res.sent, false)
})

test('a template gives the same bytes as the long way', async (t) => {
  const { timeless } = require('./_client')
  const headers = { 'X-One': '1', 'Set-Cookie': ['a', 'b'] }
  const made = template({ status: 203, headers })
  const server = await start(t, {
    routes: {
      '/template/text': (req, res) => res.reply(made, 'täxt'),
      '/long/text': (req, res) => res.status(203).headers(headers).send('täxt'),
      '/template/json': (req, res) => res.reply(made, { a: 1 }),
      '/long/json': (req, res) => res.status(203).headers(headers).send({ a: 1 }),
      '/template/bytes': (req, res) => res.reply(made, Buffer.from('b')),
      '/long/bytes': (req, res) => res.status(203).headers(headers).send(Buffer.from('b')),
      '/template/none': (req, res) => res.reply(made),
      '/long/none': (req, res) => res.status(203).headers(headers).send()
    }
  })
  for (const kind of ['text', 'json', 'bytes', 'none', 'text']) {
    const short = await ask(server, 'GET', `/template/${kind}`)
    assert.strictEqual(timeless(short), timeless(await ask(server, 'GET', `/long/${kind}`)), kind)
    assert.strictEqual(short.status, 203)
  }
})

test('what is set on res comes on top of a template', async (t) => {
  const made = template({ headers: { 'X-A': 'template', 'Content-Type': 'text/x' } })
  const response = await answered(t, (req, res) => res.header('X-A', 'res').header('X-B', 'b').reply(made, 'x'))
  assert.deepStrictEqual(response.lines.slice(0, 3), ['X-A: res', 'Content-Type: text/x', 'X-B: b'])
})

test('res.reply() sends replies as well', async (t) => {
  const server = await start(t, {
    routes: {
      '/fixed': (req, res) => res.reply(reply({ status: 410, body: 'gone' })),
      '/made': (req, res) => res.reply(reply.json`[${query('q')}]`)
    }
  })
  const fixed = await ask(server, 'GET', '/fixed')
  assert.deepStrictEqual([fixed.status, fixed.body], [410, 'gone'])
  assert.strictEqual((await ask(server, 'GET', '/made?q=%22')).body, '["\\""]')
  assert.strictEqual(await codeOf(t, (res) => res.reply({}, 'x')), 'ERR_MILLRACE_TEMPLATE')
  assert.strictEqual(await codeOf(t, (res) => res.reply(reply({ body: 'x' }), 'y')), 'ERR_MILLRACE_TEMPLATE')
})

test('template() refuses what no response could be made of', () => {
  const code = (init) => {
    try {
      template(init)
    } catch (err) {
      return err.code
    }
    return undefined
  }
  assert.strictEqual(code({ status: 99 }), 'ERR_MILLRACE_STATUS')
  assert.strictEqual(code({ headers: { 'X Y': '1' } }), 'ERR_MILLRACE_HEADER')
  assert.strictEqual(code({ headers: { 'Content-Length': '1' } }), 'ERR_MILLRACE_LENGTH')
  assert.strictEqual(code({ stauts: 200 }), 'ERR_MILLRACE_TEMPLATE')
  assert.strictEqual(code(5), 'ERR_MILLRACE_TEMPLATE')
})

test('a failed answer in a handler is a 500 with nothing of the prepared head', async (t) => {
  quiet(t)
  const response = await answered(t, (req, res) => {
    res.status(201).header('X-Secret', 'x').type('html')
    throw new Error('late')
  })
  assert.strictEqual(response.status, 500)
  assert.strictEqual(response.headers['x-secret'], undefined)
  assert.strictEqual(response.headers['content-type'], 'text/plain; charset=utf-8')
})
