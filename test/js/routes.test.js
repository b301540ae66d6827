'use strict'
// Which route answers, what it gets, and what happens when none does.

const { test } = require('node:test')
const assert = require('node:assert')
const { serve, reply, param, template } = require('../..')
const { start, ask, exchange, request } = require('./_client')

const name = (text) => () => text
const params = (req) => req.params

test('static before param before wildcard, whatever the order', async (t) => {
  const server = await start(t, {
    routes: {
      '/*': name('all'),
      '/a/*': name('a rest'),
      '/a/:id': name('a id'),
      '/:x/b': name('x b'),
      '/a/b': name('a b'),
      '/a/:id/c': name('a id c'),
      '/a/b/:c/d': name('a b c d')
    }
  })
  const cases = {
    '/': 'all',
    '/a': 'all',
    '/a/': 'a rest',
    '/a/b': 'a b',
    '/a/x': 'a id',
    '/a/b/': 'a rest',
    '/a/x/c': 'a id c',
    '/a/b/c': 'a id c',
    '/a/b/c/d': 'a b c d',
    '/a/b/x/y': 'a rest',
    '/z/b': 'x b',
    '/z/c': 'all',
    '//b': 'all',
    '/a//c': 'a rest',
    '/A/b': 'x b',
    '/a/b?c': 'a b',
    '/a%2Fb': 'all',
    '/%61/b': 'x b'
  }
  for (const [target, expected] of Object.entries(cases)) {
    assert.strictEqual((await ask(server, 'GET', target)).body, expected, target)
  }
})

test('a candidate without the method gives way to a less specific one', async (t) => {
  const server = await start(t, {
    routes: { 'GET /a/b': name('get'), 'POST /a/:id': name('post'), 'DELETE /*': name('delete') }
  })
  assert.strictEqual((await ask(server, 'GET', '/a/b')).body, 'get')
  assert.strictEqual((await ask(server, 'POST', '/a/b')).body, 'post')
  assert.strictEqual((await ask(server, 'DELETE', '/a/b')).body, 'delete')
  const refused = await ask(server, 'PUT', '/a/b')
  assert.strictEqual(refused.status, 405)
  assert.strictEqual(refused.headers.allow, 'GET, HEAD, POST, DELETE, OPTIONS')
})

test('another method: 405, Allow right before Content-Length', async (t) => {
  const server = await start(t, { routes: { '/things': { PATCH: name('patch'), POST: name('post'), GET: name('get') }, '/text': 'text' } })
  const response = await ask(server, 'DELETE', '/things')
  assert.strictEqual(response.status, 405)
  assert.strictEqual(response.body, 'Method Not Allowed')
  assert.deepStrictEqual(response.lines.slice(0, 3), ['Content-Type: text/plain; charset=utf-8', 'Allow: GET, HEAD, POST, PATCH, OPTIONS', 'Content-Length: 18'])
  assert.strictEqual(response.headers.connection, undefined)
  assert.strictEqual((await ask(server, 'POST', '/text')).headers.allow, 'GET, HEAD, OPTIONS')
})

test('OPTIONS: 204 with Allow, unless a route takes it', async (t) => {
  const server = await start(t, {
    routes: { '/things': { POST: name('post') }, '/own': { OPTIONS: name('own') }, '/any': (req) => req.method }
  })
  const response = await ask(server, 'OPTIONS', '/things')
  assert.strictEqual(response.status, 204)
  assert.strictEqual(response.headers.allow, 'POST, OPTIONS')
  assert.strictEqual(response.headers['content-type'], undefined)
  assert.strictEqual(response.headers['content-length'], undefined)
  assert.strictEqual((await ask(server, 'OPTIONS', '/own')).body, 'own')
  assert.strictEqual((await ask(server, 'OPTIONS', '/any')).body, 'OPTIONS')
  assert.strictEqual((await ask(server, 'OPTIONS', '/nowhere')).status, 404)
  assert.strictEqual((await ask(server, 'OPTIONS', '*')).status, 204)
})

test('HEAD falls back to GET, unless a route takes it', async (t) => {
  const server = await start(t, {
    routes: {
      '/text': 'text',
      '/template/:id': reply`${param('id')}`,
      '/get': { GET: name('get!') },
      '/head': { GET: name('x'), HEAD: (req, res) => res.header('X-Own', 'yes').end() },
      '/any': (req, res) => res.header('X-Method', req.method).send('any'),
      '/post': { POST: name('post') }
    }
  })
  assert.strictEqual((await ask(server, 'HEAD', '/text')).headers['content-length'], '4')
  assert.strictEqual((await ask(server, 'HEAD', '/template/abc')).headers['content-length'], '3')
  assert.strictEqual((await ask(server, 'HEAD', '/get')).headers['content-length'], '4')
  assert.strictEqual((await ask(server, 'HEAD', '/head')).headers['x-own'], 'yes')
  assert.strictEqual((await ask(server, 'HEAD', '/any')).headers['x-method'], 'HEAD')
  assert.strictEqual((await ask(server, 'HEAD', '/post')).status, 405)
  assert.strictEqual((await ask(server, 'HEAD', '/nowhere')).status, 404)
})

test('functions answer any method, texts and replies only GET', async (t) => {
  const server = await start(t, {
    routes: { '/f': (req) => req.method, '/t': 't', '/r': reply({ body: 'r' }), 'POST /p': 'posted', '/q': { PUT: reply({ status: 201 }) } }
  })
  for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'PROPFIND', 'PURGE']) {
    assert.strictEqual((await ask(server, method, '/f')).body, method)
  }
  assert.strictEqual((await ask(server, 'POST', '/t')).status, 405)
  assert.strictEqual((await ask(server, 'POST', '/r')).status, 405)
  assert.strictEqual((await ask(server, 'POST', '/p')).body, 'posted')
  assert.strictEqual((await ask(server, 'GET', '/p')).status, 405)
  assert.strictEqual((await ask(server, 'PUT', '/q')).status, 201)
})

test('params are percent-decoded, and "+" is not a space', async (t) => {
  const server = await start(t, { routes: { '/u/:first/:second_2': params } })
  const decoded = async (target) => JSON.parse((await ask(server, 'GET', target)).body)
  assert.deepStrictEqual(await decoded('/u/a/b'), { first: 'a', second_2: 'b' })
  assert.deepStrictEqual(await decoded('/u/a%20b/c%2Fd?x=1'), { first: 'a b', second_2: 'c/d' })
  assert.deepStrictEqual(await decoded('/u/%E2%82%AC/a+b'), { first: '€', second_2: 'a+b' })
  assert.deepStrictEqual(await decoded('/u/%F0%9F%98%80/:x'), { first: '😀', second_2: ':x' })
})

test('a bad escape in a param is 400, and the connection goes on', async (t) => {
  const server = await start(t, { routes: { '/u/:id': params, '/w/*': params, '/t/:id': reply`${param('id')}`, '/s/%zz': name('static') } })
  const targets = ['/u/%', '/u/%2', '/u/%zz', '/u/%ff', '/u/%c3%28', '/u/%ed%a0%80', '/w/a/%', '/t/%zz']
  for (const target of targets) {
    const response = await ask(server, 'GET', target)
    assert.deepStrictEqual([response.status, response.body], [400, 'Bad Request'], target)
  }
  assert.strictEqual((await ask(server, 'GET', '/s/%zz')).body, 'static')
})

test('a wildcard takes the rest, which may be empty', async (t) => {
  const server = await start(t, { routes: { '/f/:a/*': params } })
  const rest = async (target) => JSON.parse((await ask(server, 'GET', target)).body)
  assert.deepStrictEqual(await rest('/f/1/'), { a: '1', '*': '' })
  assert.deepStrictEqual(await rest('/f/1/x/y%20z//'), { a: '1', '*': 'x/y z//' })
  assert.strictEqual((await ask(server, 'GET', '/f/1')).status, 404)
})

test('a param does not match an empty segment, and a trailing slash counts', async (t) => {
  const server = await start(t, { routes: { '/u/:id': name('id'), '/dir/': name('dir') } })
  assert.strictEqual((await ask(server, 'GET', '/u/')).status, 404)
  assert.strictEqual((await ask(server, 'GET', '/u/x/')).status, 404)
  assert.strictEqual((await ask(server, 'GET', '/dir/')).body, 'dir')
  assert.strictEqual((await ask(server, 'GET', '/dir')).status, 404)
})

test('params with the names of object properties are params', async (t) => {
  const server = await start(t, { routes: { '/:__proto__/:constructor': (req) => Object.keys(req.params).map((key) => `${key}=${req.params[key]}`).join() } })
  assert.strictEqual((await ask(server, 'GET', '/a/b')).body, '__proto__=a,constructor=b')
})

test('an absolute target is routed by its path', async (t) => {
  const server = await start(t, { routes: { '/': name('root'), '/a': (req) => req.path } })
  assert.strictEqual((await ask(server, 'GET', 'http://test/a?b')).body, '/a')
  assert.strictEqual((await ask(server, 'GET', 'http://test')).body, 'root')
  assert.strictEqual((await ask(server, 'GET', 'http://test?x')).body, 'root')
})

test('what no route matches goes to handler, else it is 404', async (t) => {
  const without = await start(t, { routes: { '/a': 'a' } })
  const missing = await ask(without, 'GET', '/b')
  assert.deepStrictEqual([missing.status, missing.body, missing.headers['content-type']], [404, 'Not Found', 'text/plain; charset=utf-8'])
  assert.strictEqual(missing.headers.connection, undefined)
  const server = await start(t, { routes: { '/a': 'a' }, handler: (req) => ({ path: req.path, params: req.params }) })
  assert.strictEqual((await ask(server, 'POST', '/b/c')).body, '{"path":"/b/c","params":{}}')
  assert.strictEqual((await ask(server, 'POST', '/a')).status, 405)
})

test('a server without routes and handler says 404', async (t) => {
  const server = await start(t, {})
  assert.strictEqual((await ask(server, 'GET', '/')).status, 404)
})

test('a route with many params and a deep path', async (t) => {
  const names = Array.from({ length: 16 }, (_, i) => `p${i}`)
  const server = await start(t, { routes: { [names.map((each) => `/:${each}`).join('')]: params } })
  const response = await ask(server, 'GET', names.map((each, i) => `/${i}`).join(''))
  assert.deepStrictEqual(JSON.parse(response.body), Object.fromEntries(names.map((each, i) => [each, String(i)])))
})

test('routes of one socket write are told apart', async (t) => {
  const server = await start(t, { routes: { '/text': 'text', '/f/:id': (req) => req.params.id, '/r/:id': reply`r${param('id')}` } })
  const text = ['/text', '/f/1', '/r/2', '/none', '/f/3'].map((target) => request('GET', target)).join('')
  const responses = await exchange(server, text, Array(5).fill('GET'))
  assert.deepStrictEqual(responses.map(({ body }) => body), ['text', '1', 'r2', 'Not Found', '3'])
})

const f = () => {}
const many = (count, text) => Array.from({ length: count }, (_, i) => text(i)).join('')

const BAD_TABLES = {
  'no slash': { a: f },
  'an empty key': { '': f },
  'a star in the middle': { '/a/*/b': f },
  'a star as a part': { '/a*': f },
  'a param without name': { '/:': f },
  'a param with a suffix': { '/:id.json': f },
  'a param with a digit first': { '/:1': f },
  'the same param twice': { '/:a/:a': f },
  'too many params': { [many(17, (i) => `/:p${i}`)]: f },
  'sixteen params and a wildcard': { [`${many(16, (i) => `/:p${i}`)}/*`]: f },
  'too many segments': { [many(65, () => '/a')]: f },
  'too long': { [`/${'a'.repeat(2048)}`]: f },
  'a query': { '/a?b': f },
  'a fragment': { '/a#b': f },
  'a space': { '/a b': f },
  'beyond ASCII': { '/ä': f },
  'an unknown method': { 'FETCH /a': f },
  'a lower-case method': { 'get /a': f },
  CONNECT: { 'CONNECT /a': f },
  'an unknown method in a table': { '/a': { GTE: f } },
  'a method twice': { 'GET /a': { GET: f } },
  'an empty table': { '/a': {} },
  'a number': { '/a': 5 },
  null: { '/a': null },
  undefined: { '/a': undefined },
  'an array': { '/a': ['x'] },
  'bytes': { '/a': Buffer.from('x') },
  'a Response': { '/a': new Response('x') },
  'a template without body': { '/a': template() },
  'a nested table': { '/a': { GET: { GET: f } } },
  'the same route twice': { 'GET /a': f, '/a': { GET: f } },
  'a function beside a method': { '/a': f, 'POST /a': f },
  'the same route by other names': { '/:a': f, '/:b': f },
  'a reply with a param that is not there': { '/:id': reply`${param('ib')}` },
  'a reply with the rest of a pattern without wildcard': { '/:id': reply`${param('*')}` }
}

for (const [label, routes] of Object.entries(BAD_TABLES)) {
  test(`a bad table is refused: ${label}`, async (t) => {
    const err = await serve({ port: 0, host: '127.0.0.1', routes }).then((server) => server.close().then(() => undefined), (thrown) => thrown)
    assert.strictEqual(err?.code, 'ERR_MILLRACE_ROUTE')
    assert.ok(err.message.includes(`'${Object.keys(routes).at(-1)}'`), err.message)
  })
}

test('the nearest method is named', async () => {
  const err = await serve({ port: 0, routes: { 'GTE /a': f } }).catch((thrown) => thrown)
  assert.match(err.message, /Did you mean GET\?/)
})

test('tables at the bounds are taken', async (t) => {
  const server = await start(t, {
    routes: {
      [many(64, () => '/a')]: 'deep',
      [`/${'b'.repeat(2047)}`]: 'long',
      [`${many(15, (i) => `/:p${i}`)}/*`]: 'params',
      'GET   /spaces': 'spaces',
      "/a-b_c.d~e!$&'()+,;=@:f": 'characters'
    }
  })
  assert.strictEqual((await ask(server, 'GET', many(64, () => '/a'))).body, 'deep')
  assert.strictEqual((await ask(server, 'GET', `/${'b'.repeat(2047)}`)).body, 'long')
  assert.strictEqual((await ask(server, 'GET', '/spaces')).body, 'spaces')
  assert.strictEqual((await ask(server, 'GET', "/a-b_c.d~e!$&'()+,;=@:f")).body, 'characters')
})
