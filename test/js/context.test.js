'use strict'

// What one handler does to the async context stays out of the next handlers of its batch.
// First with a batch loop of this file's own around lib/context.js, for every strategy that is
// right in this process, then in child processes with the other setting of Node's context
// frames, then through serve() with pipelined requests.

const assert = require('node:assert/strict')
const { spawnSync } = require('node:child_process')
const { AsyncLocalStorage, AsyncResource, executionAsyncResource } = require('node:async_hooks')
const net = require('node:net')
const { test } = require('node:test')
const { createIsolation, strategy } = require('../../lib/context')

const PLAIN = { call: (fn, a, b, c) => fn(a, b, c) }

// As the core does it: one resource around the loop, a handler that throws does not end it.
function runBatch (isolation, handlers) {
  const outcomes = []
  new AsyncResource('BATCH').runInAsyncScope(() => {
    for (const handler of handlers) {
      try {
        outcomes.push(isolation.call(handler))
      } catch (error) {
        outcomes.push(error)
      }
    }
  })
  return outcomes
}

test('the mock of a batch leaks without isolation', () => {
  const storage = new AsyncLocalStorage()
  const read = () => storage.getStore()
  const outcomes = runBatch(PLAIN, [() => storage.enterWith('first'), read])
  assert.equal(outcomes[1], 'first')
})

for (const kind of new Set([strategy, 'fresh'])) {
  const name = (text) => `${kind}: ${text}`

  test(name('enterWith ends with its handler, within a batch and beyond'), () => {
    const storage = new AsyncLocalStorage()
    const isolation = createIsolation(kind)
    const enter = (store) => () => {
      const before = storage.getStore()
      storage.enterWith(store)
      return [before, storage.getStore()]
    }
    for (let round = 0; round < 3; round++) {
      const outcomes = runBatch(isolation, [enter('a'), enter('b'), enter('c')])
      assert.deepEqual(outcomes, [[undefined, 'a'], [undefined, 'b'], [undefined, 'c']])
    }
    assert.equal(storage.getStore(), undefined)
  })

  test(name('arguments and results pass through'), () => {
    const isolation = createIsolation(kind)
    assert.deepEqual(isolation.call((...args) => args, 1, 'b', null), [1, 'b', null])
  })

  test(name('every handler sees the store of serve(), not that of the batch'), () => {
    const storage = new AsyncLocalStorage()
    const isolation = storage.run('serve', () => createIsolation(kind))
    const read = () => storage.getStore()
    const change = () => { storage.enterWith('changed') }
    const outcomes = storage.run('batch', () => runBatch(isolation, [read, change, read, read]))
    assert.deepEqual(outcomes, ['serve', undefined, 'serve', 'serve'])
  })

  test(name('an inherited store that was cleared comes back'), () => {
    const storage = new AsyncLocalStorage()
    const isolation = storage.run('serve', () => createIsolation(kind))
    const read = () => storage.getStore()
    const clear = () => storage.enterWith(undefined)
    assert.deepEqual(runBatch(isolation, [clear, read]), [undefined, 'serve'])
  })

  test(name('an async handler keeps what it entered, its neighbours do not get it'), async () => {
    const storage = new AsyncLocalStorage()
    const isolation = createIsolation(kind)
    const handler = (store) => async () => {
      const seen = [storage.getStore()]
      storage.enterWith(store)
      await null
      seen.push(storage.getStore())
      await new Promise((resolve) => setImmediate(resolve))
      seen.push(storage.getStore())
      return seen
    }
    const outcomes = await Promise.all(runBatch(isolation, [handler(1), handler(2), handler(3)]))
    assert.deepEqual(outcomes, [[undefined, 1, 1], [undefined, 2, 2], [undefined, 3, 3]])
  })

  test(name('jobs run later with the store of the handler that made them'), async () => {
    const storage = new AsyncLocalStorage()
    const isolation = createIsolation(kind)
    const later = (start) => (store) => () => {
      storage.enterWith(store)
      return new Promise((resolve) => start(() => resolve(storage.getStore())))
    }
    for (const start of [process.nextTick, queueMicrotask, setImmediate, setTimeout]) {
      const make = later(start)
      assert.deepEqual(await Promise.all(runBatch(isolation, [make('a'), make('b')])), ['a', 'b'])
    }
  })

  test(name('run, nested run, and enterWith inside run'), () => {
    const outer = new AsyncLocalStorage()
    const inner = new AsyncLocalStorage()
    const isolation = createIsolation(kind)
    const read = () => [outer.getStore(), inner.getStore()]
    const nest = () => outer.run('o', () => inner.run('i', read))
    const slip = () => outer.run('o', () => {
      inner.enterWith('slipped')
      return read()
    })
    const none = [undefined, undefined]
    const outcomes = runBatch(isolation, [read, nest, read, slip, read])
    assert.deepEqual(outcomes, [none, ['o', 'i'], none, ['o', 'slipped'], none])
  })

  test(name('a handler that throws after enterWith leaves nothing behind'), () => {
    const storage = new AsyncLocalStorage()
    const isolation = createIsolation(kind)
    const fail = (reason) => () => {
      storage.enterWith('thrown')
      throw reason
    }
    const read = () => storage.getStore()
    const error = new Error('expected')
    const outcomes = runBatch(isolation, [fail(error), read, fail(null), read])
    assert.deepEqual(outcomes, [error, undefined, null, undefined])
  })

  test(name('several stores, some older than the isolation, some made by a handler'), () => {
    const old = new AsyncLocalStorage()
    old.run('elsewhere', () => {})
    const isolation = createIsolation(kind)
    const young = new AsyncLocalStorage()
    let youngest
    const stores = () => [old, young, youngest].map((storage) => storage?.getStore())
    const enter = () => {
      youngest ??= new AsyncLocalStorage()
      for (const storage of [old, young, youngest]) storage.enterWith('x')
      return stores()
    }
    const none = [undefined, undefined, undefined]
    const outcomes = runBatch(isolation, [stores, enter, stores, enter, stores])
    assert.deepEqual(outcomes, [none, ['x', 'x', 'x'], none, ['x', 'x', 'x'], none])
  })

  test(name('a store that was read before it was ever entered'), () => {
    const storage = new AsyncLocalStorage()
    storage.run('elsewhere', () => {})
    const isolation = createIsolation(kind)
    const read = () => storage.getStore()
    const enter = () => storage.enterWith('late')
    const none = new Array(4).fill(undefined)
    assert.deepEqual(runBatch(isolation, [read, read, enter, read]), none)
  })

  test(name('hundreds of stores, one per request, and the inherited one still right'), () => {
    const inherited = new AsyncLocalStorage()
    const isolation = inherited.run('serve', () => createIsolation(kind))
    const made = []
    const enter = () => {
      const before = [...made.map((storage) => storage.getStore()), inherited.getStore()]
      const storage = new AsyncLocalStorage()
      made.push(storage)
      storage.enterWith('mine')
      inherited.enterWith('mine too')
      return new Set(before)
    }
    const outcomes = runBatch(isolation, new Array(200).fill(enter))
    const again = [() => made[0].enterWith('again'), () => made[0].getStore()]
    assert.equal(runBatch(isolation, again)[1], undefined)
    const keys = isolation.call(() => Reflect.ownKeys(executionAsyncResource()).length)
    assert.ok(keys < 100 || kind === 'fresh', `the resource of all requests has ${keys} properties`)
    for (const storage of made) storage.disable()
    assert.deepEqual(outcomes[0], new Set(['serve']))
    for (const seen of outcomes.slice(1)) assert.deepEqual(seen, new Set([undefined, 'serve']))
  })

  test(name('two isolations in one batch keep their own contexts'), () => {
    const storage = new AsyncLocalStorage()
    const one = storage.run('one', () => createIsolation(kind))
    const two = storage.run('two', () => createIsolation(kind))
    const seen = []
    const step = () => {
      seen.push(storage.getStore())
      storage.enterWith('changed')
    }
    runBatch(PLAIN, [one, two, one, two].map((isolation) => () => isolation.call(step)))
    assert.deepEqual(seen, ['one', 'two', 'one', 'two'])
  })

  test(name('after dispose a late request is still served'), () => {
    const storage = new AsyncLocalStorage()
    const isolation = storage.run('serve', () => createIsolation(kind))
    isolation.dispose()
    assert.equal(isolation.call(() => storage.getStore()), 'serve')
  })
}

test('properties put on the current resource', { skip: strategy === 'frame' }, () => {
  const isolation = createIsolation()
  const symbol = Symbol('mine')
  const mark = () => {
    const resource = executionAsyncResource()
    const before = [resource[symbol], resource.mine]
    resource[symbol] = resource.mine = 'marked'
    return [...before, resource[symbol], resource.mine]
  }
  const clean = [undefined, undefined, 'marked', 'marked']
  assert.deepEqual(runBatch(isolation, [mark, mark, mark]), [clean, clean, clean])
})

// Each flag turns the mechanism of some Node over to the other one. The variable keeps the
// child from starting children.
const flags = ['--experimental-async-context-frame', '--no-async-context-frame']
for (const flag of process.env.MILLRACE_TEST_CHILD ? [] : flags) {
  const skip = !process.allowedNodeEnvironmentFlags.has(flag.replace('--no-', '--')) &&
    `this Node has no ${flag}`
  test(`all of this under ${flag}`, { skip }, () => {
    const env = { ...process.env, MILLRACE_TEST_CHILD: '1' }
    delete env.NODE_TEST_CONTEXT // else the child reports to a runner that is not there
    const child = spawnSync(process.execPath, [flag, __filename], { env, encoding: 'utf8' })
    assert.equal(child.status, 0, child.stdout + child.stderr)
  })
}

let millrace
let missing
try {
  millrace = require('../..')
  const { ok, reason } = millrace.probe()
  if (!ok) missing = `no usable binary: ${reason}`
} catch (error) {
  if (error.code !== 'MODULE_NOT_FOUND') throw error
  missing = 'the package is not complete yet'
}

// Sends the requests in one write, so that they are parsed in one turn, and reads to the end.
function exchange (port, paths) {
  const last = paths.length - 1
  const heads = paths.map((path, i) =>
    `GET ${path} HTTP/1.1\r\nHost: test\r\n${i === last ? 'Connection: close\r\n' : ''}\r\n`)
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = net.connect(port, '127.0.0.1', () => socket.write(heads.join('')))
    socket.setEncoding('latin1')
    socket.on('data', (chunk) => { text += chunk })
    socket.on('error', reject)
    socket.on('close', () => resolve(text))
  })
}

// The bodies of these tests stand in brackets, which no head contains.
const bodies = (text) => text.match(/<[^>]*>/g)

async function withServer (routes, run) {
  const error = (err) => `<${err.message}>`
  const server = await millrace.serve({ port: 0, host: '127.0.0.1', routes, error })
  try {
    return await run(Number(new URL(server.url).port))
  } finally {
    await server.close({ deadline: 1000 })
  }
}

test('serve: a request does not see what the one before entered', { skip: missing }, async () => {
  const storage = new AsyncLocalStorage()
  const routes = {
    '/enter': () => {
      const before = storage.getStore()
      storage.enterWith('entered')
      return `<${before}>`
    },
    '/throw': () => {
      const before = storage.getStore()
      storage.enterWith('thrown')
      throw new Error(`threw ${before}`)
    },
    '/read': () => `<${storage.getStore()}>`
  }
  const paths = ['/enter', '/enter', '/read', '/throw', '/read', '/read']
  const start = () => withServer(routes, (port) => exchange(port, paths))
  const text = await storage.run('serve', start)
  const expected = ['<serve>', '<serve>', '<serve>', '<threw serve>', '<serve>', '<serve>']
  assert.deepEqual(bodies(text), expected)
})

test('serve: async handlers keep their own stores', { skip: missing }, async () => {
  const storage = new AsyncLocalStorage()
  const routes = {
    '/:id': async (req) => {
      const seen = [storage.getStore()]
      storage.enterWith(req.params.id)
      await null
      seen.push(storage.getStore())
      await new Promise((resolve) => setImmediate(resolve))
      seen.push(storage.getStore())
      return `<${seen.join()}>`
    }
  }
  const text = await withServer(routes, (port) => exchange(port, ['/a', '/b', '/c']))
  assert.deepEqual(bodies(text), ['<,a,a>', '<,b,b>', '<,c,c>'])
})

test('serve: ticks run before promise jobs, as under node:http', { skip: missing }, async () => {
  const routes = {
    '/': () => new Promise((resolve) => {
      const order = ['handler']
      setImmediate(() => resolve(`<${order.join()}>`))
      queueMicrotask(() => order.push('job'))
      process.nextTick(() => order.push('tick'))
    })
  }
  const text = await withServer(routes, (port) => exchange(port, ['/', '/']))
  assert.deepEqual(bodies(text), ['<handler,tick,job>', '<handler,tick,job>'])
})
