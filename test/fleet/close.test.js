'use strict'
// close(): in good time and by force.

const { test } = require('node:test')
const { run } = require('../proc/_child')

test('close() answers what is in flight, awaits the hooks, is idempotent, and leaves a free port', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { connect, descriptors, isFree, oneEach, open, request, until } = require('../fleet/_fleet')
    const { bus } = require('../..')
    const before = descriptors()
    const hooks = []
    bus.on('hook', (index) => { hooks.push(index) })
    const fleet = await open({ threads: 2, workerData: { hook: true } })
    const busy = await oneEach(fleet, 2)
    const idle = await oneEach(fleet, 2)
    for (const client of busy) client.write(request('GET', '/held'))
    for (const thread of [0, 1]) await until('it is held', async () => await bus.call(thread, 'held') === 1)
    let isDone = false
    const closing = fleet.close()
    const again = fleet.close()
    closing.then(() => { isDone = true })
    for (const client of idle) assert.strictEqual(await client.ended(), '')
    const late = connect(fleet)
    assert.strictEqual(await late.ended(), '') // refused by the system
    assert.deepStrictEqual(fleet.health().threads.map(({ state }) => state), ['draining', 'draining'])
    assert.deepStrictEqual([isDone, hooks], [false, []])
    for (const thread of [0, 1]) assert.strictEqual(await bus.call(thread, 'release'), 1)
    for (const [thread, client] of busy.entries()) assert.strictEqual((await client.next()).body, String(thread))
    await Promise.all([closing, again, fleet.close()])
    assert.deepStrictEqual(hooks.sort(), [0, 1])
    await fleet.done
    assert.strictEqual(await isFree(fleet.port), true)
    for (const client of [...busy, ...idle, late]) client.destroy()
    await until('no descriptors are left', () => descriptors() <= before + 2) // the loop's own, made at first use
  })
})

test('the deadline of close() forces; a later, shorter one counts; 0 is at once', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { isFree, oneEach, open, request, until } = require('../fleet/_fleet')
    const { bus } = require('../..')
    for (const ways of [[{ deadline: 50 }], [undefined, { deadline: 50 }], [{ deadline: 0 }], [undefined, { deadline: 0 }], [{ deadline: 100 }, { deadline: 60000 }]]) {
      const fleet = await open()
      const busy = await oneEach(fleet, 2)
      for (const client of busy) client.write(request('GET', '/held'))
      for (const thread of [0, 1]) await until('it is held', async () => await bus.call(thread, 'held') === 1)
      await Promise.all(ways.map((how) => fleet.close(how)))
      for (const client of busy) {
        assert.strictEqual(await client.ended(), '')
        client.destroy()
      }
      assert.strictEqual(await isFree(fleet.port), true)
    }
    const fleet = await open()
    for (const how of [{ deadline: -1 }, { deadline: '1' }]) await assert.rejects(fleet.close(how), { code: 'ERR_MILLRACE_OPTION_RANGE' })
    for (const how of [null, 1, { deadlin: 1 }]) await assert.rejects(fleet.close(how), { code: 'ERR_MILLRACE_OPTION' })
    await fleet.close()
  })
})

test('a thread that is stuck does not outlive the deadline', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { isFree, oneEach, open, request, switches, until } = require('../fleet/_fleet')
    const { flag, isHanging } = switches()
    const fleet = await open({ workerData: { flag } })
    const [client] = await oneEach(fleet, 2)
    client.write(request('GET', '/stuck'))
    await until('it hangs', isHanging)
    await fleet.close({ deadline: 100 })
    assert.strictEqual(await isFree(fleet.port), true)
    client.destroy()
  })
})

test('connections that wait in a queue when close() is called are answered', async (t) => {
  for (const balance of process.platform === 'linux' ? ['reuseport', 'rotate'] : ['rotate']) {
    await run(t, async (balance) => {
      const assert = require('node:assert')
      const net = require('node:net')
      const { open, request } = require('../fleet/_fleet')
      const fleet = await open({ balance })
      const answers = Array.from({ length: 60 }, () => new Promise((resolve) => {
        let text = ''
        const socket = net.connect({ port: fleet.port, host: '127.0.0.1' }).setEncoding('latin1')
        socket.write(request('GET', '/who'))
        socket.on('data', (chunk) => { text += chunk }).on('error', (err) => resolve(err.code)).on('end', () => resolve(text.slice(0, 12)))
      }))
      // By then the system has connected them, but this thread's loop has not turned: where it is the
      // one who accepts, all of them wait.
      await new Promise((resolve) => { process.nextTick(resolve) })
      await fleet.close({ deadline: 30000, grace: 10000 })
      assert.deepStrictEqual(await Promise.all(answers), Array(60).fill('HTTP/1.1 200'))
    }, { args: [balance] })
  }
})

test('a fleet ends while its threads are being replaced', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { isFree, once, open, quiet, switches } = require('../fleet/_fleet')
    const { bus } = require('../..')
    const { flag, hold } = switches()
    quiet()
    const fleet = await open({ workerData: { flag } })
    hold()
    const down = once(fleet, 'down')
    bus.post(1, 'exit', 1)
    await down
    await fleet.close()
    assert.strictEqual(await isFree(fleet.port), true)
  })
})

