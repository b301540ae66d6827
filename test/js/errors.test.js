'use strict'
// Handlers that throw, reject, answer twice or never: the request gets its 500, nobody else notices.

const { test } = require('node:test')
const assert = require('node:assert')
const { MillraceError } = require('../..')
const { start, connect, exchange, ask, request, quiet, deferred } = require('./_client')

const hostile = () => new Proxy(new Error('hidden'), {
  get () { throw new Error('trap') },
  getPrototypeOf () { throw new Error('trap') },
  has () { throw new Error('trap') }
})

const THROWN = {
  'an Error': () => { throw new Error('boom') },
  null: () => { throw null }, // eslint-disable-line no-throw-literal
  undefined: () => { throw undefined }, // eslint-disable-line no-throw-literal
  'a number': () => { throw 404 }, // eslint-disable-line no-throw-literal
  'a frozen object': () => { throw Object.freeze({ status: 404 }) }, // eslint-disable-line no-throw-literal
  'an error with a status of its own': () => { throw Object.assign(new Error('x'), { status: 404 }) },
  'an error whose stack is a getter that throws': () => { throw Object.defineProperty(new Error('x'), 'stack', { get () { throw new Error('y') } }) },
  'an object whose every access throws': () => { throw hostile() },
  'a stack overflow': () => { const again = () => again() + 1; again() },
  'a rejection': async () => { throw new Error('boom') },
  'a rejection with undefined': () => Promise.reject(), // eslint-disable-line prefer-promise-reject-errors
  'a rejection with null': () => Promise.reject(null), // eslint-disable-line prefer-promise-reject-errors
  'a late rejection': async () => {
    await new Promise((resolve) => setImmediate(resolve))
    throw new Error('late')
  },
  'a value that throws while it is looked at': () => hostile(),
  'a promise of such a value': async () => [hostile()],
  'a bad header in the handler': (req, res) => { res.header('X', 'a\nb') },
  'a bad status in the handler': (req, res) => { res.status(1000) }
}

for (const [name, handler] of Object.entries(THROWN)) {
  test(`${name}: 500, one line, and the neighbours in the same write are served`, async (t) => {
    const lines = quiet(t)
    const server = await start(t, { routes: { '/bad': handler, '/good': () => 'good', '/async': async () => 'async' } })
    const text = ['/good', '/bad', '/async', '/bad', '/good'].map((path) => request('GET', path)).join('')
    const responses = await exchange(server, text, Array(5).fill('GET'))
    assert.deepStrictEqual(responses.map(({ status }) => status), [200, 500, 200, 500, 200])
    assert.deepStrictEqual(responses.map(({ body }) => body), ['good', 'Internal Server Error', 'async', 'Internal Server Error', 'good'])
    assert.strictEqual(responses[1].headers['content-type'], 'text/plain; charset=utf-8')
    assert.strictEqual(lines.length, 2)
    assert.match(lines[0], /GET \/bad/)
  })
}

test('nothing of the error goes to the client', async (t) => {
  quiet(t)
  const server = await start(t, { handler () { throw new Error('password=hunter2') } })
  assert.ok(!(await ask(server, 'GET', '/')).raw.includes('hunter2'))
})

test('an answer followed by an error stands; the error is still told', async (t) => {
  const lines = quiet(t)
  const server = await start(t, {
    handler (req, res) {
      res.send('done')
      throw new Error('afterwards')
    }
  })
  const responses = await exchange(server, request('GET', '/').repeat(2), ['GET', 'GET'])
  assert.deepStrictEqual(responses.map(({ body }) => body), ['done', 'done'])
  assert.strictEqual(lines.length, 2)
  assert.match(lines[0], /afterwards/)
})

test('a value returned after an answer is an error that is told', async (t) => {
  const codes = []
  const server = await start(t, {
    handler (req, res) {
      res.send('first')
      return 'second'
    },
    error (err) { codes.push(err.code) }
  })
  assert.strictEqual((await ask(server, 'GET', '/')).body, 'first')
  assert.deepStrictEqual(codes, ['ERR_MILLRACE_ALREADY_ANSWERED'])
})

test('a second answer in the promise of the first one disturbs nobody', async (t) => {
  const lines = quiet(t)
  const server = await start(t, {
    routes: {
      '/twice': async (req, res) => {
        res.send('once')
        await null
        res.send('twice')
      },
      '/good': () => 'good'
    }
  })
  const responses = await exchange(server, request('GET', '/twice') + request('GET', '/good'), ['GET', 'GET'])
  assert.deepStrictEqual(responses.map(({ body }) => body), ['once', 'good'])
  assert.match(lines.join('\n'), /ERR_MILLRACE_ALREADY_ANSWERED|has its answer/)
})

test('a handler that never answers keeps only its own client waiting', async (t) => {
  const server = await start(t, { routes: { '/never': () => {}, '/good': () => 'good' } })
  const waiting = connect(server)
  t.after(() => waiting.destroy())
  waiting.write(request('GET', '/never'))
  assert.strictEqual((await ask(server, 'GET', '/good')).body, 'good')
  assert.strictEqual((await ask(server, 'GET', '/good')).body, 'good')
  assert.strictEqual(waiting.pending, '')
})

test('the error hook gets the error itself, the request and the response', async (t) => {
  const boom = Object.freeze({ boom: true })
  const seen = []
  const server = await start(t, {
    handler () { throw boom },
    error (err, req, res) {
      seen.push(err === boom, req.path)
      res.status(503).header('Retry-After', 5).send('busy')
    }
  })
  const response = await ask(server, 'GET', '/x')
  assert.deepStrictEqual(seen, [true, '/x'])
  assert.deepStrictEqual([response.status, response.headers['retry-after'], response.body], [503, '5', 'busy'])
})

const HOOKS = {
  'returns a text': [() => 'sorry', 500, 'sorry'],
  'returns an object': [() => ({ error: 1 }), 500, '{"error":1}'],
  'returns a Response': [() => new Response('web', { status: 502 }), 502, 'web'],
  'is async': [async () => 'later', 500, 'later'],
  'answers asynchronously by res': [async (err, req, res) => { await null; res.status(500 + (err ? 4 : 0)).send('timeout') }, 504, 'timeout'],
  'sets a status and returns': [(err, req, res) => { res.status(err ? 501 : 500); return 'x' }, 501, 'x'],
  'does nothing': [() => {}, 500, 'Internal Server Error'],
  'does nothing, later': [async () => {}, 500, 'Internal Server Error'],
  throws: [() => { throw null }, 500, 'Internal Server Error'], // eslint-disable-line no-throw-literal
  rejects: [async () => { throw new Error('hook') }, 500, 'Internal Server Error'],
  'returns a number': [() => 7, 500, 'Internal Server Error'],
  'returns a hostile object': [() => hostile(), 500, 'Internal Server Error'],
  'sets a header and throws': [(err, req, res) => { res.header('X-Hook', '1').status(503); throw err }, 500, 'Internal Server Error']
}

for (const [name, [error, status, body]] of Object.entries(HOOKS)) {
  test(`an error hook that ${name}`, async (t) => {
    quiet(t)
    const server = await start(t, { routes: { '/bad': () => { throw new Error('x') }, '/good': () => 'good' }, error })
    const responses = await exchange(server, request('GET', '/bad') + request('GET', '/good'), ['GET', 'GET'])
    assert.deepStrictEqual([responses[0].status, responses[0].body], [status, body])
    assert.strictEqual(responses[0].headers['x-hook'], undefined)
    assert.strictEqual(responses[1].body, 'good')
  })
}

test('with an error hook, nothing is logged', async (t) => {
  const lines = quiet(t)
  const server = await start(t, { handler () { throw new Error('x') }, error: () => 'handled' })
  await ask(server, 'GET', '/')
  assert.deepStrictEqual(lines, [])
})

test('a hook that answers what was answered before is not an error of its own', async (t) => {
  const lines = quiet(t)
  const called = deferred()
  const server = await start(t, {
    handler (req, res) {
      res.send('done')
      throw new Error('x')
    },
    error (err, req, res) {
      called.resolve(err)
      res.status(500).send('error')
    }
  })
  assert.strictEqual((await ask(server, 'GET', '/')).body, 'done')
  await called.promise
  assert.strictEqual((await ask(server, 'GET', '/')).body, 'done')
  assert.deepStrictEqual(lines, [])
})

test('malformed JSON is a 400 without a line in the log', async (t) => {
  const lines = quiet(t)
  const server = await start(t, { handler: (req) => req.json() })
  const response = await ask(server, 'POST', '/', {}, '{"a":')
  assert.deepStrictEqual([response.status, response.body], [400, 'Bad Request'])
  assert.deepStrictEqual(lines, [])
})

test('malformed JSON reaches the error hook with code, status and cause', async (t) => {
  const server = await start(t, {
    handler: (req) => req.json(),
    error: (err) => [err.code, err.status, err.cause instanceof SyntaxError, err instanceof MillraceError]
  })
  const response = await ask(server, 'POST', '/', {}, 'nope')
  assert.strictEqual(response.status, 400)
  assert.deepStrictEqual(JSON.parse(response.body), ['ERR_MILLRACE_BAD_JSON', 400, true, true])
})

test('an error after the client has gone is told and ends nothing', async (t) => {
  const came = deferred()
  const told = deferred()
  const fire = deferred()
  const server = await start(t, {
    routes: {
      '/bad': async (req, res) => {
        came.resolve(res)
        await fire.promise
        throw new Error('nobody listens')
      },
      '/good': () => 'good'
    },
    error (err) { told.resolve(err) }
  })
  const client = connect(server)
  client.write(request('GET', '/bad'))
  const res = await came.promise
  const outcome = res.finished
  client.reset()
  assert.strictEqual(await outcome, false)
  fire.resolve()
  assert.strictEqual((await told.promise).message, 'nobody listens')
  assert.strictEqual((await ask(server, 'GET', '/good')).body, 'good')
})

test('MillraceError has a code, a sentence and a name', async (t) => {
  const { serve } = require('../..')
  const err = await serve({ prot: 1 }).catch((thrown) => thrown)
  assert.ok(err instanceof MillraceError)
  assert.ok(err instanceof Error)
  assert.strictEqual(err.name, 'MillraceError')
  assert.match(err.code, /^ERR_MILLRACE_[A-Z_]+$/)
  assert.match(err.message, /\.$/)
  assert.ok(!(new Error('x') instanceof MillraceError))
})
