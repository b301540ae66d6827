'use strict'
// Replies and templates: the same bytes as a handler that says the same, and escapes for the type.

const { test } = require('node:test')
const assert = require('node:assert')
const { reply, param, query, header } = require('../..')
const { start, ask, exchange, request, timeless } = require('./_client')

const cookies = { 'X-One': '1', 'Set-Cookie': ['a=1', 'b=2'] }

// Every form of one response; all have to give the same bytes.
const SAME = {
  'a text': {
    text: 'Hello, World!',
    fixed: reply({ body: 'Hello, World!' }),
    tag: reply`Hello, World!`,
    textTag: reply.text`Hello, World!`,
    value: reply`Hello, ${'World'}!`,
    template: reply`${query('greeting', 'Hello')}, World!`,
    returned: () => 'Hello, World!',
    promised: async () => 'Hello, World!',
    sent: (req, res) => res.send('Hello, World!'),
    ended: (req, res) => res.end('Hello, World!'),
    reply: () => reply({ body: 'Hello, World!' }),
    web: () => new Response('Hello, World!', { headers: [['Content-Type', 'text/plain; charset=utf-8']] })
  },
  'a text beyond ASCII': {
    text: 'grüß €😀',
    template: reply`${query('x', 'grüß')} €😀`,
    returned: () => 'grüß €😀',
    fixed: reply({ body: 'grüß €😀' })
  },
  JSON: {
    fixed: reply({ body: { a: 'x' } }),
    tag: reply.json`{"a":"x"}`,
    template: reply.json`{"a":${query('a', 'x')}}`,
    typed: reply({ headers: { 'Content-Type': 'application/json' } })`{"a":${query('a', 'x')}}`,
    returned: () => ({ a: 'x' }),
    sent: (req, res) => res.json({ a: 'x' })
  },
  HTML: {
    tag: reply.html`<p>x</p>`,
    template: reply.html`<p>${query('a', 'x')}</p>`,
    sent: (req, res) => res.type('html').send('<p>x</p>')
  },
  bytes: {
    fixed: reply({ body: Buffer.from([1, 2, 255]) }),
    returned: () => Buffer.from([1, 2, 255]),
    sent: (req, res) => res.send(new Uint8Array([1, 2, 255]))
  },
  'status and headers': {
    fixed: reply({ status: 201, headers: cookies, body: 'made' }),
    pairs: reply({ status: 201, headers: [['X-One', 1], ['Set-Cookie', 'a=1'], ['Set-Cookie', 'b=2']], body: 'made' }),
    tag: reply({ status: 201, headers: cookies })`made`,
    template: reply({ status: 201, headers: cookies })`${query('x', 'made')}`,
    sent: (req, res) => res.status(201).headers(cookies).send('made'),
    returned: (req, res) => {
      res.status(201).headers(cookies)
      return 'made'
    }
  },
  'a type between other headers': {
    fixed: reply({ headers: { 'X-A': 'a', 'content-type': 'text/x', 'X-B': 'b' }, body: 'x' }),
    template: reply({ headers: { 'X-A': 'a', 'content-type': 'text/x', 'X-B': 'b' } })`${query('q', 'x')}`,
    sent: (req, res) => res.header('X-A', 'a').header('content-type', 'text/x').header('X-B', 'b').send('x')
  },
  'no content': {
    fixed: reply({ status: 204 }),
    sent: (req, res) => res.status(204).send(),
    dropped: (req, res) => res.status(204).send('x'),
    fixedDropped: reply({ status: 204, body: 'x' }),
    null: () => null
  },
  'not modified': {
    fixed: reply({ status: 304, headers: { ETag: '"x"' } }),
    sent: (req, res) => res.status(304).header('ETag', '"x"').end()
  },
  'no body': {
    fixed: reply({ status: 404 }),
    sent: (req, res) => res.status(404).end()
  },
  'an empty text': {
    text: '',
    fixed: reply({ body: '' }),
    tag: reply``,
    template: reply`${query('x')}`,
    returned: () => ''
  },
  'a Date of its own': {
    fixed: reply({ headers: { Date: 'then' }, body: 'x' }),
    template: reply({ headers: { Date: 'then' } })`${query('x', 'x')}`,
    sent: (req, res) => res.header('Date', 'then').send('x')
  },
  'the end of the connection': {
    fixed: reply({ headers: { Connection: 'close' }, body: 'x' }),
    template: reply({ headers: { Connection: 'close' } })`${query('x', 'x')}`,
    sent: (req, res) => res.header('Connection', 'close').send('x')
  },
  'a latin1 header': {
    fixed: reply({ headers: { 'X-L': 'caf\xe9' }, body: 'é' }),
    template: reply({ headers: { 'X-L': 'caf\xe9' } })`${query('x', 'é')}`,
    sent: (req, res) => res.header('X-L', 'caf\xe9').send('é')
  }
}

for (const [label, forms] of Object.entries(SAME)) {
  test(`all forms give the same bytes: ${label}`, async (t) => {
    const routes = Object.fromEntries(Object.entries(forms).map(([name, value]) => [`/${name}`, value]))
    const server = await start(t, { routes })
    for (const method of ['GET', 'HEAD']) {
      const seen = new Map()
      for (const name of Object.keys(forms)) {
        const response = await ask(server, method, `/${name}`)
        // A web Response has no case for names; it is compared without.
        seen.set(name, name === 'web' ? timeless(response).replace('content-type', 'Content-Type') : timeless(response))
      }
      // Functions answer HEAD too; what they send is left out on the wire.
      const [first] = seen.values()
      for (const [name, bytes] of seen) assert.strictEqual(bytes, first, `${method} ${name}`)
    }
  })
}

test('the head has one order', async (t) => {
  const server = await start(t, { routes: { '/': reply({ status: 202, headers: { 'X-A': '1' }, body: 'x' }) } })
  const { raw } = await ask(server, 'GET', '/', { Connection: 'close' })
  assert.match(raw, /^HTTP\/1\.1 202 Accepted\r\nContent-Type: text\/plain; charset=utf-8\r\nX-A: 1\r\nContent-Length: 1\r\nDate: [^\r]+ GMT\r\nConnection: close\r\n\r\nx$/)
})

const echo = {
  '/text/:v': reply`[${param('v')}]`,
  '/html/:v': reply.html`<b title='${param('v')}'>${query('q')}</b>`,
  '/json/:v': reply.json`{"v":${param('v')},"q":${query('q', 'none')},"h":${header('X-H', 'no "h"')}}`,
  '/rest/*': reply`${param('*')}`,
  '/query': reply`${query('q', 'fallback')}|${query('r')}`,
  '/header': reply`${header('X-H', 'fallback')}|${header('cookie')}|${header('USER-AGENT')}`
}

test('params are decoded, then escaped for the type', async (t) => {
  const server = await start(t, { routes: echo })
  const body = async (target, headers) => (await ask(server, 'GET', target, headers)).body
  assert.strictEqual(await body('/text/a%20%3Cb%3E%22'), '[a <b>"]')
  assert.strictEqual(await body('/text/%F0%9F%98%80'), '[😀]')
  assert.strictEqual(await body('/html/%3C%26%3E%22%27?q=%3Cscript%3E'), "<b title='&lt;&amp;&gt;&quot;&#39;'>&lt;script&gt;</b>")
  assert.strictEqual(await body('/rest/a/b%2Fc/'), 'a/b/c/')
  assert.strictEqual(await body('/rest/'), '')
})

test('JSON placeholders are whole literals, as JSON.stringify writes them', async (t) => {
  const server = await start(t, { routes: echo })
  const wild = '"\\\b\f\n\r\t\u0001\u001f\u007f/\u2028é😀'
  const response = await ask(server, 'GET', `/json/${encodeURIComponent(wild)}?q=${encodeURIComponent(wild)}`)
  assert.strictEqual(response.body, `{"v":${JSON.stringify(wild)},"q":${JSON.stringify(wild)},"h":"no \\"h\\""}`)
  assert.deepStrictEqual(JSON.parse(response.body), { v: wild, q: wild, h: 'no "h"' })
  assert.strictEqual((await ask(server, 'GET', '/json/x', { 'X-H': 'a"b' })).body, '{"v":"x","q":"none","h":"a\\"b"}')
})

test('query values are those of URLSearchParams', async (t) => {
  const server = await start(t, { routes: echo })
  for (const search of ['', '?', '?q', '?q=', '?q=a+b%20c', '?x=1&q=2&q=3', '?Q=1', '?q=%zz%', '?q=%ff%c3', '?%71=z', '?q=a=b', '?&&q=1&', '?q=%EF%BB%BFx', '?r=1', '?q=a%00b', '?q=%ed%a0%80']) {
    const params = new URLSearchParams(search)
    const expected = `${params.get('q') ?? 'fallback'}|${params.get('r') ?? ''}`
    assert.strictEqual((await ask(server, 'GET', `/query${search}`)).body, expected, search)
  }
})

test('header values: fallback, any case, several lines, latin1', async (t) => {
  const server = await start(t, { routes: echo })
  const send = async (lines) => {
    const [response] = await exchange(server, `GET /header HTTP/1.1\r\nHost: x\r\n${lines}\r\n`)
    return response.body
  }
  assert.strictEqual(await send(''), 'fallback||')
  assert.strictEqual(await send('x-H: 1\r\n'), '1||')
  assert.strictEqual(await send('X-H:\r\n'), '||')
  assert.strictEqual(await send('X-H: 1\r\nX-H: 2\r\n'), '1, 2||')
  assert.strictEqual(await send('Cookie: a=1\r\nCookie: b=2\r\n'), 'fallback|a=1; b=2|')
  assert.strictEqual(await send('User-Agent: one\r\nUser-Agent: two\r\n'), 'fallback||one')
  assert.strictEqual(await send('X-H: caf\xe9\r\n'), 'café||')
})

test('the escape follows the content type that is set', async (t) => {
  const typed = (type) => reply({ headers: { 'Content-Type': type } })`${query('q')}`
  const server = await start(t, {
    routes: { '/html': typed('TEXT/HTML; charset=utf-8'), '/svg': typed('image/svg+xml'), '/problem': typed('application/problem+json'), '/csv': typed('text/csv') }
  })
  const body = async (path) => (await ask(server, 'GET', `${path}?q=%3C%22`)).body
  assert.strictEqual(await body('/html'), '&lt;&quot;')
  assert.strictEqual(await body('/svg'), '&lt;&quot;')
  assert.strictEqual(await body('/problem'), '"<\\""')
  assert.strictEqual(await body('/csv'), '<"')
})

test('values known beforehand are escaped as well', async (t) => {
  const server = await start(t, {
    routes: { '/html': reply.html`<i>${'<&>'}${1}</i>`, '/json': reply.json`[${'"'},${{ a: [1] }},${null},${true}]`, '/text': reply`${'<'}${2}` }
  })
  assert.strictEqual((await ask(server, 'GET', '/html')).body, '<i>&lt;&amp;&gt;1</i>')
  assert.strictEqual((await ask(server, 'GET', '/json')).body, '["\\"",{"a":[1]},null,true]')
  assert.strictEqual((await ask(server, 'GET', '/text')).body, '<2')
})

test('a constant does not change with what it was made of', async (t) => {
  const body = Buffer.from('before')
  const headers = { 'X-H': 'before' }
  const server = await start(t, { routes: { '/': reply({ headers, body }) } })
  body.write('after!')
  headers['X-H'] = 'after'
  const response = await ask(server, 'GET', '/')
  assert.deepStrictEqual([response.body, response.headers['x-h']], ['before', 'before'])
})

test('a large constant and a template of many parts', async (t) => {
  const large = 'x'.repeat(300000)
  const parts = Array(31).fill(param('id'))
  const strings = Object.assign([...Array(31).fill('-'), '!'], { raw: [] })
  const server = await start(t, { routes: { '/large': large, '/:id': reply(strings, ...parts) } })
  assert.ok((await ask(server, 'GET', '/large')).body === large)
  assert.strictEqual((await ask(server, 'GET', '/ab')).body, `${'-ab'.repeat(31)}!`)
})

test('replies are pipelined in order with handlers', async (t) => {
  const server = await start(t, {
    routes: { '/slow': async () => { await new Promise((resolve) => setImmediate(resolve)); return 'slow' }, '/fast': 'fast', '/t/:id': reply`${param('id')}` }
  })
  const text = ['/slow', '/fast', '/t/1', '/slow', '/t/2'].map((path) => request('GET', path)).join('')
  assert.deepStrictEqual((await exchange(server, text, Array(5).fill('GET'))).map(({ body }) => body), ['slow', 'fast', '1', 'slow', '2'])
})

const codeOf = (make) => {
  try {
    make()
  } catch (err) {
    return err.code
  }
  return undefined
}

test('what no reply can be made of throws at once, with a code', () => {
  const many = (count) => reply(Object.assign(Array(count + 1).fill(''), { raw: [] }), ...Array(count).fill(query('x')))
  const cases = [
    [() => reply(), 'ERR_MILLRACE_TEMPLATE'],
    [() => reply('text'), 'ERR_MILLRACE_TEMPLATE'],
    [() => reply(['x']), 'ERR_MILLRACE_TEMPLATE'],
    [() => reply({ boddy: 'x' }), 'ERR_MILLRACE_TEMPLATE'],
    [() => reply.html('<p>'), 'ERR_MILLRACE_TEMPLATE'],
    [() => reply({ body: 'x' })`y`, 'ERR_MILLRACE_TEMPLATE'],
    [() => reply({})('x'), 'ERR_MILLRACE_TEMPLATE'],
    [() => reply({ status: 204 })`x`, 'ERR_MILLRACE_TEMPLATE'],
    [() => reply`${undefined}`, 'ERR_MILLRACE_TEMPLATE'],
    [() => reply`${() => 1}`, 'ERR_MILLRACE_TEMPLATE'],
    [() => reply`${{}}`, 'ERR_MILLRACE_TEMPLATE'],
    [() => many(65), 'ERR_MILLRACE_TEMPLATE'],
    [() => many(64), undefined],
    [() => reply({ status: 101 }), 'ERR_MILLRACE_STATUS'],
    [() => reply({ status: '200' }), 'ERR_MILLRACE_STATUS'],
    [() => reply({ headers: { 'a b': 'x' } }), 'ERR_MILLRACE_HEADER'],
    [() => reply({ headers: { a: 'x\r\ny' } }), 'ERR_MILLRACE_HEADER'],
    [() => reply({ headers: { 'Transfer-Encoding': 'chunked' } }), 'ERR_MILLRACE_HEADER'],
    [() => reply({ headers: { 'Content-Length': 5 }, body: 'x' }), 'ERR_MILLRACE_LENGTH'],
    [() => reply({ headers: { 'Content-Length': 1 }, body: 'x' }), undefined],
    [() => reply({ headers: { 'Content-Length': 5 } })`x`, 'ERR_MILLRACE_LENGTH'],
    [() => reply({ body: 5 }), 'ERR_MILLRACE_BODY_TYPE'],
    [() => reply({ body: new Map() }), 'ERR_MILLRACE_BODY_TYPE'],
    [() => param(), 'ERR_MILLRACE_TEMPLATE'],
    [() => param(''), 'ERR_MILLRACE_TEMPLATE'],
    [() => query(5), 'ERR_MILLRACE_TEMPLATE'],
    [() => query('x', 5), 'ERR_MILLRACE_TEMPLATE'],
    [() => header('a b'), 'ERR_MILLRACE_HEADER'],
    [() => header('x', null), 'ERR_MILLRACE_TEMPLATE']
  ]
  for (const [make, code] of cases) assert.strictEqual(codeOf(make), code, String(make))
})
