'use strict'
// What errors say: what happened, and only such advice as helps in that place.

const { test } = require('node:test')
const assert = require('node:assert')
const { serve, reply, template } = require('../..')
const { show, countOf } = require('../../lib/errors')
const { start, ask, quiet } = require('./_client')

// What a handler's call throws.
async function thrownBy (t, work) {
  let thrown
  const server = await start(t, {
    handler (req, res) {
      try {
        return work(res)
      } catch (err) {
        thrown = err
        return 'caught'
      }
    },
    error (err) { thrown ??= err }
  })
  await ask(server, 'GET', '/')
  return thrown
}

const refusal = (options) => serve({ port: 0, host: '127.0.0.1', ...options }).then((server) => server.close({ deadline: 0 }), (err) => err)
const circle = () => {
  const value = {}
  value.self = value
  return value
}

// [what is done in a handler, code, the whole message]
const IN_HANDLERS = [
  [(res) => res.redirect('/', 200), 'ERR_MILLRACE_STATUS', '200 does not redirect; 301, 302, 303, 307 and 308 do.'],
  [(res) => res.inform(200), 'ERR_MILLRACE_STATUS', '200 is not the status of an interim answer: 102, 103, up to 199.'],
  [(res) => res.header('Transfer-Encoding', 'gzip'), 'ERR_MILLRACE_HEADER', 'Transfer-Encoding is the server\'s to set. Leave it out: what is written in pieces is chunked where that is possible.'],
  [(res) => res.headers(5), 'ERR_MILLRACE_HEADER', 'Headers are an object or a list of pairs, not 5.'],
  [(res) => res.trailers({ Host: 'a' }), 'ERR_MILLRACE_HEADER', 'Host cannot be a trailer. It has to be known before the content: set it as a header.'],
  [(res) => res.type('nope'), 'ERR_MILLRACE_HEADER', '\'nope\' is neither a content type nor one of text, html, json, css, js, csv, xml, svg, form, bytes.'],
  [(res) => res.send(5), 'ERR_MILLRACE_BODY_TYPE', '5 cannot be sent. Give a string, bytes, an object for its JSON, or null; res.json() sends any value as JSON.'],
  [(res) => res.write(5), 'ERR_MILLRACE_BODY_TYPE', '5 cannot be written. A piece is a string or bytes.'],
  [(res) => res.header('Content-Length', 5).send('x'), 'ERR_MILLRACE_LENGTH', 'Content-Length is 5, but the body has 1 byte. Leave Content-Length out: it is always added.'],
  [(res) => res.json(circle()), 'ERR_MILLRACE_BODY_TYPE', 'JSON cannot express <ref *1> { self: [Circular *1] }: Converting circular structure to JSON.'],
  [(res) => res.send({ big: 5n }), 'ERR_MILLRACE_BODY_TYPE', 'JSON cannot express { big: 5n }: Do not know how to serialize a BigInt.'],
  [() => circle(), 'ERR_MILLRACE_BODY_TYPE', 'JSON cannot express <ref *1> { self: [Circular *1] }: Converting circular structure to JSON.'],
  [(res) => res.json(undefined), 'ERR_MILLRACE_BODY_TYPE', 'JSON cannot express undefined.'],
  [() => new Error('lost\nits way'), 'ERR_MILLRACE_RETURN', 'A handler returned Error: lost its way. Return a string, bytes, an object, a Response, a stream, a promise of one of these, or nothing.'],
  [() => () => 'x', 'ERR_MILLRACE_RETURN', 'A handler returned a function. Return a string, bytes, an object, a Response, a stream, a promise of one of these, or nothing.']
]

for (const [work, code, message] of IN_HANDLERS) {
  test(`in a handler, ${String(work)}`, async (t) => {
    const err = await thrownBy(t, work)
    assert.deepStrictEqual([err?.code, err?.message], [code, message])
  })
}

test('what JSON.stringify() threw is the cause', async (t) => {
  assert.ok((await thrownBy(t, (res) => res.json(circle()))).cause instanceof TypeError)
})

test('what a toJSON() of the program throws stays its own', async (t) => {
  const own = new RangeError('mine')
  assert.strictEqual(await thrownBy(t, (res) => res.json({ toJSON () { throw own } })), own)
})

// [options, code, the whole message]
const IN_OPTIONS = [
  [{ routes: new Map([['/', 'x']]) }, 'ERR_MILLRACE_OPTION', /^routes is an object of patterns and answers, not Map\(1\) .*\. Object\.fromEntries\(\) makes one of a Map\. The types/],
  [{ routes: { '/m': reply } }, 'ERR_MILLRACE_ROUTE', /^Route '\/m': reply and reply\.text, \.html and \.json are tags, not answers: write reply`…`, or reply\(\{ … \}\)\.$/],
  [{ routes: { '/m': { GET: reply.json } } }, 'ERR_MILLRACE_ROUTE', /are tags, not answers/],
  [{ routes: { '/a/{id}/b': 'x' } }, 'ERR_MILLRACE_ROUTE', /^Route '\/a\/\{id\}\/b': '\{id\}' would be taken as it stands\. Did you mean :id\?$/],
  [{ routes: { a: 'x' } }, 'ERR_MILLRACE_ROUTE', /^Route 'a': a pattern starts with '\/'\.$/],
  [{ routes: { 'GTE /a': 'x' } }, 'ERR_MILLRACE_ROUTE', /^Route 'GTE \/a': there is no method GTE for routes\. Did you mean GET\?$/],
  [{ routes: { '/a': template() } }, 'ERR_MILLRACE_ROUTE', /^Route '\/a': a template needs a body: .* in a function\.$/],
  [{ routes: { '/a': 5 } }, 'ERR_MILLRACE_ROUTE', /^Route '\/a': 5 cannot be a route\. A route is a text, a reply, a function, or a table of these by method\.$/],
  [{ routes: { '/a': { GET: 'x', limits: { bodyByte: 1 } } } }, 'ERR_MILLRACE_ROUTE', /^Route '\/a': There is no limit of a route named bodyByte\. Did you mean bodyBytes\?$/],
  [{ handler: 5 }, 'ERR_MILLRACE_OPTION', /^handler is a function, not 5\. The types \(lib\/index\.d\.ts\) list every option\.$/]
]

for (const [options, code, message] of IN_OPTIONS) {
  test(`of serve(): ${message.source}`, async () => {
    const err = await refusal(options)
    assert.strictEqual(err?.code, code)
    assert.match(err.message, message)
  })
}

for (const name of ['tls', 'https', 'ssl', 'cert', 'key', 'pfx']) {
  test(`TLS is not there yet: ${name}`, async () => {
    const err = await refusal({ [name]: {} })
    assert.strictEqual(err?.code, 'ERR_MILLRACE_UNSUPPORTED')
    assert.strictEqual(err.message, `${name}: TLS is not there yet. Put a proxy that speaks it in front, and leave the option out.`)
  })
}

test('a table of routes without a prototype, and one of a class, are objects', async (t) => {
  class Table { '/' = 'x' }
  for (const routes of [Object.assign(Object.create(null), { '/': 'x' }), new Table()]) {
    assert.strictEqual((await ask(await start(t, { routes }), 'GET', '/')).body, 'x')
  }
})

test('braces that are not a whole segment are text', async (t) => {
  const server = await start(t, { routes: { '/a{b}': 'x' } })
  assert.strictEqual((await ask(server, 'GET', '/a{b}')).body, 'x')
})

test('options of calls are named in the same way', async (t) => {
  const server = await start(t, { routes: { '/': 'x' } })
  await assert.rejects(server.close({ dedline: 1 }), /There is no option of close\(\) named dedline\. Did you mean deadline\?/)
  assert.throws(() => server.reload({ rotes: {} }), /There is no option of reload\(\) named rotes\. Did you mean routes\?/)
  assert.throws(() => reply({ stauts: 200 }), /There is no option of reply\(\) named stauts\. Did you mean status\?/)
  assert.throws(() => template({ header: {} }), /There is no option of template\(\) named header\. Did you mean headers\?/)
})

test('values are shown on one line, and never long', () => {
  assert.strictEqual(show(() => {}), 'a function')
  assert.strictEqual(show(function named () {}), 'function named')
  assert.strictEqual(show(new TypeError('a\n  b')), 'TypeError: a b')
  assert.strictEqual(show('x'.repeat(58)), `'${'x'.repeat(58)}'`)
  assert.strictEqual(show('x'.repeat(59)), `'${'x'.repeat(58)}…`)
  assert.strictEqual(show(new Proxy({}, { getPrototypeOf () { throw new Error('trap') } })), '{}')
  assert.deepStrictEqual([0, 1, 2].map((count) => countOf(count, 'byte')), ['0 bytes', '1 byte', '2 bytes'])
})

test('the console is told the code, with a cause and without', async (t) => {
  const lines = quiet(t)
  const server = await start(t, {
    routes: {
      '/bare': (req, res) => res.send(5),
      '/cause': (req, res) => res.json(5n),
      '/system': () => require('node:fs').readFileSync('/nowhere/at/all'),
      '/plain': () => { throw new Error('boom') }
    }
  })
  for (const path of ['/bare', '/cause', '/system', '/plain']) await ask(server, 'GET', path)
  assert.strictEqual(lines.length, 4)
  assert.match(lines[0], /5 cannot be sent[^]*ERR_MILLRACE_BODY_TYPE/)
  assert.match(lines[1], /JSON cannot express 5n[^]*ERR_MILLRACE_BODY_TYPE/)
  assert.match(lines[1], /TypeError: Do not know/)
  assert.match(lines[2], /ENOENT/)
  assert.match(lines[3], /^millrace: a handler failed on GET \/plain: Error: boom\n {4}at [^{}]*$/)
})
