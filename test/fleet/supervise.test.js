'use strict'
// Threads that end: who takes their place, what the others notice, and what it costs.

const { test } = require('node:test')
const assert = require('node:assert')
const { run, start } = require('../proc/_child')

test('a thread that throws, exits or is terminated is replaced in its place, and nobody else notices', async (t) => {
  const { err } = await run(t, async () => {
    const assert = require('node:assert')
    const { get, leave, oneEach, once, open, request } = require('../fleet/_fleet')
    const { bus } = require('../..')
    const workers = new Map()
    process.on('worker', (worker) => workers.set(worker.threadId, worker))
    const fleet = await open({ restarts: 10 })
    const downs = []
    fleet.on('down', (place, reason) => { if (reason !== null) downs.push([place, reason.code ?? reason.message]) })
    const [steady, other] = await oneEach(fleet, 2)
    other.destroy()
    // Stays with thread 0 and asks all the time; it must never fail.
    let isDone = false
    let asked = 0
    const asking = (async () => {
      for (; !isDone; asked++) {
        steady.write(request('GET', '/who'))
        assert.strictEqual(JSON.parse((await steady.next()).body).threadId, steady.threadId)
        await new Promise((resolve) => setImmediate(resolve))
      }
    })()
    const ids = new Set([other.threadId])
    for (const [way, data] of [['throwLater', 'as told'], ['reject', 'rejected as told'], ['exit', 0], ['exit', 3], ['terminate']]) {
      const up = once(fleet, 'up')
      if (way === 'terminate') workers.get([...ids].at(-1)).terminate()
      else bus.post(1, way, data)
      assert.deepStrictEqual(await up, [1])
      const who = await bus.call(1, 'who')
      assert.strictEqual(who.thread, 1)
      ids.add(who.threadId)
    }
    assert.strictEqual(ids.size, 6) // another thread each time
    assert.deepStrictEqual(downs, [[1, 'as told'], [1, 'rejected as told'], ...Array(3).fill([1, 'ERR_MILLRACE_THREAD_EXITED'])])
    isDone = true
    await asking
    assert.ok(asked > 5)
    assert.deepStrictEqual((await get(fleet, '/healthz')).threads.map(({ state }) => state), ['up', 'up'])
    leave(await oneEach(fleet, 2))
    await fleet.close()
  }, { isQuiet: false })
  assert.strictEqual(err.match(/millrace: thread 1 ended and is replaced:/g).length, 5)
  assert.match(err, /as told/)
})

test('replacing threads leaks no descriptors, and the totals never go down', { skip: process.platform !== 'linux' }, async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { crowd, descriptors, isFree, leave, metric, open, quiet, until } = require('../fleet/_fleet')
    const { bus } = require('../..')
    const THREADS = 5 // all of them in each round: the waits between failures of one place are the same for each
    const fleet = await open({ threads: THREADS, restarts: 100 })
    quiet()
    let ups = 0
    fleet.on('up', () => ups++)
    const isIdle = () => fleet.health().threads.every(({ connections }) => connections === 0)
    let total = 0
    let before = null
    let made = 0
    for (let round = 1; round <= 5; round++) {
      const clients = await crowd(fleet, 20)
      made += 20
      for (let thread = 0; thread < THREADS; thread++) bus.post(thread, 'exit', 1) // with connections open
      await until('all are replaced', () => ups === round * THREADS)
      leave(clients)
      await until('no connection is left', isIdle)
      const now = metric(fleet.metrics(), 'millrace_connections_accepted_total')
      assert.ok(now >= made && now >= total, `${now} after ${total}`)
      total = now
      if (before === null) before = descriptors() // what is made once is there by now
    }
    await until(`as many descriptors as before: ${before}`, () => descriptors() <= before)
    await fleet.close()
    assert.strictEqual(await isFree(fleet.port), true)
  })
})

test('a failure at once is tried again at once, later ones after a wait, and restarts of them end the fleet with the reason', async (t) => {
  for (const hasListener of [true, false]) {
    const { code, err, out } = await start(async (hasListener) => {
      const assert = require('node:assert')
      const { isFree, open } = require('../fleet/_fleet')
      const { bus } = require('../..')
      const fleet = await open({ threads: 2, restarts: 3, deadline: 100 })
      const { port } = fleet
      const waits = []
      let from
      fleet.on('down', (place) => { if (place === 1) from = performance.now() })
      fleet.on('up', (place) => {
        if (place !== 1) return
        waits.push(performance.now() - from)
        bus.post(1, 'throwLater', 'broken for good')
      })
      const failed = new Promise((resolve) => { if (hasListener) fleet.once('error', resolve) })
      bus.post(1, 'throwLater', 'broken for good')
      if (hasListener) assert.strictEqual((await failed).code, 'ERR_MILLRACE_THREAD_FAILED')
      await assert.rejects(fleet.done, { code: 'ERR_MILLRACE_THREAD_FAILED', message: /Thread 1 has failed 4 times in a row, the last time with: broken for good\./ })
      assert.strictEqual(waits.length, 3)
      assert.ok(waits[1] >= 199 && waits[2] >= 399, `${waits}`) // it never comes early; how late is not looked at
      assert.strictEqual(await isFree(port), true)
      await fleet.close()
    }, { args: [hasListener] }).result
    if (hasListener) assert.deepStrictEqual([code, out.includes('reached the end')], [0, true], err)
    else assert.deepStrictEqual([code, /ERR_MILLRACE_THREAD_FAILED/.test(err)], [1, true], err) // nobody listens: the process says why it ends
  }
})

test('restarts: 0 bears no failure', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { once, open } = require('../fleet/_fleet')
    const { bus } = require('../..')
    const fleet = await open({ threads: 2, restarts: 0, deadline: 100 })
    const failed = once(fleet, 'error')
    bus.post(0, 'exit', 5)
    const [err] = await failed
    assert.strictEqual(err.code, 'ERR_MILLRACE_THREAD_FAILED')
    assert.strictEqual(err.cause.code, 'ERR_MILLRACE_THREAD_EXITED')
    await assert.rejects(fleet.done, err)
  })
})

test('two copies of the addon in one process start no fleet', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const fs = require('node:fs')
    const os = require('node:os')
    const path = require('node:path')
    const { open } = require('../fleet/_fleet')
    const { probe } = require('../..')
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'millrace-copy-'))
    const copy = path.join(folder, 'other.node')
    fs.copyFileSync(probe().binary, copy)
    const first = await open() // before it is there
    await first.close()
    process.dlopen({ exports: {} }, copy)
    fs.rmSync(folder, { recursive: true })
    await assert.rejects(open(), { code: 'ERR_MILLRACE_COPIES', message: /2 copies/ })
  })
})

test('launches that are cut short at any moment leave nothing', { skip: process.platform !== 'linux' }, async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { descriptors, isFree, open, threadNames, until } = require('../fleet/_fleet')
    const one = await open()
    await one.close()
    const before = descriptors()
    for (let i = 0; i < 5; i++) {
      await open({ threads: 3, launchTimeout: 1 + i * 40 }).then(
        (fleet) => fleet.close({ deadline: 0 }),
        (err) => assert.strictEqual(err.code, 'ERR_MILLRACE_LAUNCH'))
    }
    await until('as many descriptors as before', () => descriptors() <= before)
    assert.deepStrictEqual(threadNames().filter((name) => name.startsWith('mr-')), [])
    const last = await open()
    await last.close()
    assert.strictEqual(await isFree(last.port), true)
  })
})
