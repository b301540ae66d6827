'use strict'
// Messages between threads, through the public API.

const { test } = require('node:test')
const { run } = require('../proc/_child')

test('post and call: to each thread, to all, to main, and to oneself', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open, until } = require('../fleet/_fleet')
    const { bus } = require('../..')
    const heard = []
    assert.strictEqual(bus.on('heard', (message, { from }) => { heard.push({ ...message, at: from }) }), bus) // before there is a fleet
    const fleet = await open({ threads: 3 })
    bus.on('sum', ([a, b], { from }) => [a + b, from])
    for (let thread = 0; thread < 3; thread++) {
      assert.strictEqual((await bus.call(thread, 'who')).thread, thread)
      // From there to everybody, itself included.
      for (let to = 0; to < 3; to++) assert.deepStrictEqual((await bus.call(thread, 'callTo', { to, name: 'who' })).value.thread, to)
      assert.deepStrictEqual(await bus.call(thread, 'callTo', { to: 'main', name: 'sum', data: [1, thread] }), { value: [1 + thread, thread] })
    }
    assert.strictEqual(await bus.call('main', 'sum', [1, 2]).then(([sum, from]) => `${sum} ${from}`), '3 main')
    assert.strictEqual(bus.post('all', 'main', 'x'), true)
    await until('all have heard', () => heard.length === 3)
    assert.deepStrictEqual(heard.sort((a, b) => a.thread - b.thread), [0, 1, 2].map((thread) => ({ data: 'x', from: 'main', thread, at: thread })))
    heard.length = 0
    assert.deepStrictEqual(await bus.call(1, 'postTo', { to: 'all', name: 'main', data: 'y' }), { sent: 1, lost: 0 })
    await until('all have heard', () => heard.length === 3)
    assert.deepStrictEqual(heard.map(({ from }) => from), [1, 1, 1])
    assert.strictEqual(bus.off('heard'), true)
    assert.strictEqual(bus.off('heard'), false)
    await fleet.close()
  })
})

test('what cannot be: by its code', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { once, open, quiet } = require('../fleet/_fleet')
    const { bus } = require('../..')
    const fleet = await open({ threads: 2, restarts: 10 })
    quiet()
    await assert.rejects(bus.call(0, 'nobody listens'), { name: 'MillraceError', code: 'ERR_MILLRACE_NO_HANDLER' })
    await assert.rejects(bus.call(0, 'never', 1, { timeout: 30 }), { code: 'ERR_MILLRACE_CALL_TIMEOUT' })
    assert.strictEqual((await bus.call(0, 'callTo', { to: 1, name: 'nobody listens' })).code, 'ERR_MILLRACE_NO_HANDLER')
    assert.strictEqual((await bus.call(0, 'callTo', { to: 1, name: 'never', options: { timeout: 30 } })).code, 'ERR_MILLRACE_CALL_TIMEOUT')
    // A late answer finds nobody, and disturbs nobody.
    await assert.rejects(bus.call(0, 'later', 60, { timeout: 5 }), { code: 'ERR_MILLRACE_CALL_TIMEOUT' })
    assert.strictEqual(await bus.call(0, 'later', 90), 'late')
    // The handler's own error.
    await assert.rejects(bus.call(1, 'fail', 'as told'), (err) => {
      assert.deepStrictEqual([err instanceof Error, err.name, err.message, err.code], [true, 'TypeError', 'as told', 'AS_TOLD'])
      return true
    })
    // A thread that ends before it answers, for both sides.
    const calling = bus.call(0, 'callTo', { to: 1, name: 'never', options: { timeout: Infinity } })
    const never = assert.rejects(bus.call(1, 'never', undefined, { timeout: Infinity }), { code: 'ERR_MILLRACE_THREAD_EXITED' })
    await bus.call(0, 'who')
    const up = once(fleet, 'up')
    bus.post(1, 'exit', 1)
    await never
    assert.strictEqual((await calling).code, 'ERR_MILLRACE_THREAD_EXITED')
    await up
    // Places and names that there are not.
    for (const to of [2, -1, 1.5, 'any', undefined, null]) {
      assert.throws(() => bus.post(to, 'x'), { code: 'ERR_MILLRACE_MESSAGE' })
      await assert.rejects(bus.call(to, 'x'), { code: 'ERR_MILLRACE_MESSAGE' })
    }
    await assert.rejects(bus.call('all', 'x'), { code: 'ERR_MILLRACE_MESSAGE' })
    for (const name of ['', 'x'.repeat(257), 'é'.repeat(129), 'a\0b', 7, undefined]) {
      assert.throws(() => bus.post(0, name), { code: 'ERR_MILLRACE_MESSAGE' }, String(name))
      assert.throws(() => bus.on(name, () => {}), { code: 'ERR_MILLRACE_MESSAGE' }, String(name))
      await assert.rejects(bus.call(0, name), { code: 'ERR_MILLRACE_MESSAGE' }, String(name))
    }
    assert.strictEqual(bus.post(0, 'é'.repeat(128)), true)
    for (const handler of [undefined, 'x']) assert.throws(() => bus.on('a', handler), { code: 'ERR_MILLRACE_MESSAGE' })
    bus.on('twice', () => {})
    assert.throws(() => bus.on('twice', () => {}), { code: 'ERR_MILLRACE_MESSAGE' })
    for (const timeout of [0, -1, 1.5, NaN, '1', 2 ** 31]) await assert.rejects(bus.call(0, 'who', 1, { timeout }), { code: 'ERR_MILLRACE_MESSAGE' })
    for (const data of [() => {}, Symbol('s'), { deep: [() => {}] }]) {
      assert.throws(() => bus.post(0, 'see', data), { code: 'ERR_MILLRACE_MESSAGE' })
      await assert.rejects(bus.call(0, 'echo', data), { code: 'ERR_MILLRACE_MESSAGE' })
    }
    const large = Buffer.alloc(64 * 1024 * 1024 + 1)
    assert.throws(() => bus.post(0, 'describe', large), { code: 'ERR_MILLRACE_MESSAGE', message: /larger than 64 MiB/ })
    await assert.rejects(bus.call(0, 'describe', large), { code: 'ERR_MILLRACE_MESSAGE' })
    assert.deepStrictEqual(await bus.call(0, 'describe', large.subarray(1), { timeout: 20000 }), { type: 'Buffer', length: 64 * 1024 * 1024 })
    // Nobody there: calls say so, posts are counted.
    await fleet.close()
    await assert.rejects(bus.call(0, 'who'), { code: 'ERR_MILLRACE_THREAD_EXITED' })
    const lost = bus.lost
    assert.strictEqual(bus.post('all', 'see', 1), false)
    assert.strictEqual(bus.lost, lost + 2) // one for each thread
  })
})

test('a full mailbox: posts are refused and counted, calls reject, and what was taken arrives in order', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open, switches, until } = require('../fleet/_fleet')
    const { bus } = require('../..')
    const { flag, release, isHanging } = switches()
    const fleet = await open({ threads: 2, stuckAfter: 3600_000, workerData: { flag } })
    assert.strictEqual(bus.lost, 0)
    bus.post(1, 'hang')
    await until('it hangs', isHanging)
    let sent = 0
    while (sent < 100000 && bus.post(1, 'count', { n: sent + 1 })) sent++
    assert.ok(sent > 500 && sent < 3000, `${sent}`) // 64 KiB of them
    assert.strictEqual(bus.lost, 1)
    assert.strictEqual(bus.post(1, 'count', { n: 0 }), false)
    assert.strictEqual(bus.lost, 2)
    while (bus.post(1, 'held')); // smaller ones fit into the rest
    assert.strictEqual(bus.lost, 3)
    await assert.rejects(bus.call(1, 'who'), { code: 'ERR_MILLRACE_MAILBOX_FULL' })
    assert.strictEqual(bus.lost, 3) // that one was told
    assert.ok(fleet.health().threads[1].mailboxDepth >= sent)
    // The other thread has a mailbox of its own to it.
    const others = await bus.call(0, 'countTo', { to: 1, times: 300 })
    assert.strictEqual(others, 300)
    release()
    await until('it has room', () => fleet.health().threads[1].mailboxDepth === 0)
    await until('it has read them', async () => (await bus.call(1, 'counted')).last.main === sent)
    await until('those too', async () => (await bus.call(1, 'counted')).last[0] === 300)
    assert.strictEqual((await bus.call(1, 'counted')).lostOrder, 0)
    // The bound of what is too large for the ring: 64 MiB on their way.
    Atomics.store(new Int32Array(flag), 0, 0)
    bus.post(1, 'hang')
    await until('it hangs', isHanging)
    const eighth = Buffer.alloc(8 * 1024 * 1024)
    for (let i = 0; i < 8; i++) assert.strictEqual(bus.post(1, 'describe', eighth), true, String(i))
    assert.strictEqual(bus.post(1, 'describe', eighth), false)
    assert.strictEqual(bus.post(1, 'see', 'small'), true)
    release()
    await until('it has room', () => fleet.health().threads[1].mailboxDepth === 0)
    assert.deepStrictEqual(await bus.call(1, 'describe', eighth, { timeout: 20000 }), { type: 'Buffer', length: eighth.length })
    await until('the small one is there', async () => (await bus.call(1, 'seen')).length === 1)
    await fleet.close()
  })
})

test('what is sent comes out as it went in, and bytes are safe to keep', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open } = require('../fleet/_fleet')
    const { bus } = require('../..')
    const fleet = await open({ threads: 2 })
    const circle = { name: 'round' }
    circle.self = circle
    const values = [
      undefined, null, true, 0, -0, NaN, 1.5, 10n ** 30n, '', 'text', 'héllo wörld ☃ 𝄞', 'x'.repeat(1000), 'x'.repeat(1019), 'x'.repeat(1020), 'é'.repeat(511), 'é'.repeat(512),
      '☃'.repeat(400), 'a\0b', [], [1, , 3], {}, { a: { b: [1, 'two', null, undefined] } }, // eslint-disable-line no-sparse-arrays
      new Map([[1, { two: 2 }], ['k', new Set([1, 2])]]), new Date(86400000), /a+b/gi, new Error('an error'), circle,
      Buffer.from('bytes'), Buffer.alloc(0), { inside: new Uint16Array([1, 2, 65535]) },
      'm'.repeat(1024 * 1024), 'ö'.repeat(512 * 1024)
    ]
    for (const value of values) {
      assert.deepStrictEqual(await bus.call(1, 'echo', value), value)
      assert.deepStrictEqual(await bus.call(1, 'callTo', { to: 0, name: 'echo', data: value }), { value })
    }
    // Bytes of any kind arrive as a Buffer.
    for (const value of [new Uint8Array([1, 2, 3]), new Uint8Array([9, 1, 2, 3, 9]).subarray(1, 4), new Uint8Array([1, 2, 3]).buffer, new DataView(new Uint8Array([0, 1, 2, 3]).buffer, 1)]) {
      const got = await bus.call(0, 'echo', value)
      assert.ok(Buffer.isBuffer(got))
      assert.deepStrictEqual([...got], [1, 2, 3])
    }
    const large = Buffer.alloc(10 * 1024 * 1024)
    for (let i = 0; i < large.length; i += 4096) large[i] = i >> 12
    assert.ok(large.equals(await bus.call(0, 'echo', large, { timeout: 20000 })))
    // At the bounds of the inbox and of the ring.
    for (const size of [8167, 8168, 8169, 8192, 65535, 65536, 65537]) {
      const bytes = Buffer.alloc(size, size & 0xff)
      assert.ok(bytes.equals(await bus.call(1, 'echo', bytes)), `${size}`)
    }
    // What was kept is not written over by what comes later.
    for (let i = 1; i <= 200; i++) {
      assert.ok(bus.post(1, 'keep', Buffer.alloc(1 + i * 7, i)))
      if (i % 30 === 0) await bus.call(1, 'who') // there is room again
    }
    await bus.call(1, 'who')
    for (let i = 0; i < 400; i++) assert.ok(bus.post(1, 'see', Buffer.alloc(100, 255)))
    const kept = await bus.call(1, 'kept')
    assert.deepStrictEqual(kept, Array.from({ length: 200 }, (_, i) => [1 + (i + 1) * 7, i + 1, i + 1, true]))
    // Nor does the sender's memory matter once it is sent.
    const mine = Buffer.alloc(64, 1)
    const got = bus.call(0, 'echo', mine)
    mine.fill(2)
    assert.ok((await got).every((octet) => octet === 1))
    await fleet.close()
  })
})

test('messages of a pair stay in order, from everybody to everybody at once', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open, until } = require('../fleet/_fleet')
    const { bus } = require('../..')
    const THREADS = 4
    const TIMES = 400
    const fleet = await open({ threads: THREADS, stuckAfter: 60000 })
    const sending = []
    for (let from = 0; from < THREADS; from++) {
      for (let to = 0; to < THREADS; to++) sending.push(bus.call(from, 'countTo', { to, times: TIMES }))
    }
    for (let to = 0; to < THREADS; to++) for (let n = 1; n <= TIMES; n++) assert.strictEqual(bus.post(to, 'count', { n }), true)
    assert.deepStrictEqual(await Promise.all(sending), Array(THREADS * THREADS).fill(TIMES))
    const expected = Object.fromEntries([...Array(THREADS).keys(), 'main'].map((from) => [from, TIMES]))
    for (let thread = 0; thread < THREADS; thread++) {
      await until('all have come', async () => Object.values((await bus.call(thread, 'counted')).last).every((n) => n === TIMES))
      assert.deepStrictEqual(await bus.call(thread, 'counted'), { lostOrder: 0, last: expected })
    }
    assert.strictEqual(bus.lost, 0)
    // Calls from a thread to main, to each other and back, all at once.
    bus.on('double', (n) => 2 * n)
    const calls = []
    for (let i = 0; i < 300; i++) calls.push(bus.call(i % THREADS, 'callTo', { to: i % 5 === 0 ? 'main' : (i + 1) % THREADS, name: i % 5 === 0 ? 'double' : 'echo', data: i }))
    const answers = await Promise.all(calls)
    answers.forEach(({ value }, i) => assert.strictEqual(value, i % 5 === 0 ? 2 * i : i))
    await fleet.close()
  })
})

test('the bus of the main thread goes on with the next fleet, its handlers too', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open } = require('../fleet/_fleet')
    const { bus, self } = require('../..')
    bus.on('double', (n) => 2 * n)
    await assert.rejects(open({ workerData: { way: 'throws' } }, 'broken.cjs')) // one that fails to start is one as well
    for (const threads of [2, 3]) {
      const fleet = await open({ threads })
      assert.deepStrictEqual([self.index, self.threads], [-1, threads])
      for (let thread = 0; thread < threads; thread++) {
        assert.deepStrictEqual(await bus.call(thread, 'callTo', { to: 'main', name: 'double', data: thread }), { value: 2 * thread })
      }
      await fleet.close()
    }
  })
})

test('a call that is through keeps nothing alive, whatever its timeout', async (t) => {
  await run(t, async () => {
    const { open } = require('../fleet/_fleet')
    const { bus } = require('../..')
    const fleet = await open()
    await bus.call(0, 'callTo', { to: 1, name: 'who', options: { timeout: 3600_000 } }, { timeout: 3600_000 })
    await fleet.close()
  })
})

test('without a fleet a thread is number 0 of one, and the same holds', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { bus, self } = require('../..')
    assert.deepStrictEqual([self.index, self.threads], [0, 1])
    const seen = []
    bus.on('a', (data, { from }) => { seen.push([data, from]) })
    bus.on('double', async (n) => 2 * n)
    assert.strictEqual(bus.post(0, 'a', 1), true)
    assert.strictEqual(bus.post('all', 'a', 2), true)
    assert.deepStrictEqual(seen, []) // later, as from another thread
    assert.strictEqual(await bus.call(0, 'double', 21), 42)
    assert.deepStrictEqual(seen, [[1, 0], [2, 0]])
    await assert.rejects(bus.call(0, 'absent'), { code: 'ERR_MILLRACE_NO_HANDLER' })
    assert.throws(() => bus.post(1, 'a'), { code: 'ERR_MILLRACE_MESSAGE' })
    assert.throws(() => bus.post(0, 'a', () => {}), { code: 'ERR_MILLRACE_MESSAGE' })
    assert.throws(() => bus.on('', () => {}), { code: 'ERR_MILLRACE_MESSAGE' })
    bus.post(0, 'nobody')
    await bus.call(0, 'double', 1)
    assert.strictEqual(bus.lost, 1)
  })
})
