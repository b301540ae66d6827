'use strict'
// Rolling replacement of all threads by new code: nobody who talks to the fleet notices.

const { test } = require('node:test')
const { run } = require('../proc/_child')

test('20 reloads under constant load: no failed request, no reset, no closed connection, and new code each time', async (t) => {
  for (const [balance, reloads] of process.platform === 'linux' ? [['reuseport', 20], ['rotate', 3]] : [['rotate', 20]]) {
    await run(t, async (balance, reloads) => {
      const assert = require('node:assert')
      const { ask, connect, open, pause, request, source } = require('../fleet/_fleet')
      const { bus } = require('../..')
      const code = source()
      code.write('module.exports = 0')
      let gone = 0
      bus.on('gone', () => gone++)
      const fleet = await open({ balance, workerData: { code: code.path } }, 'versioned.cjs')
      let version = 0 // what a request that begins now is answered by, at least
      let isDone = false
      const counts = { get: 0, post: 0, stream: 0, pipelined: 0, connection: 0, call: 0 }
      const check = (found, least) => assert.ok(found >= least && found <= version + 1, `${found} after ${least}`)
      const checkHead = ({ status, headers }) => assert.deepStrictEqual([status, headers.connection], [200, undefined])
      const kinds = {
        get: async (client, least) => {
          client.write(request('GET', '/version'))
          const answer = await client.next()
          checkHead(answer)
          check(JSON.parse(answer.body).version, least)
        },
        post: async (client, least, n) => {
          const body = 'x'.repeat(1 + (n * 7919) % 50000)
          const text = request('POST', '/length', {}, body)
          client.write(text.slice(0, -body.length >> 1)) // in two parts
          await pause(1)
          client.write(text.slice(-body.length >> 1))
          const answer = await client.next('POST')
          checkHead(answer)
          const { version, length } = JSON.parse(answer.body)
          assert.strictEqual(length, body.length)
          check(version, least)
        },
        stream: async (client, least) => {
          client.write(request('GET', '/stream'))
          const answer = await client.next()
          checkHead(answer)
          const found = parseInt(answer.body)
          check(found, least)
          assert.strictEqual(answer.body, Array.from({ length: 8 }, (_, i) => `${found} ${i}\n`).join(''))
        },
        pipelined: async (client, least) => {
          client.write(request('GET', '/version').repeat(2) + request('GET', '/slow') + request('GET', '/fixed').repeat(2))
          for (let i = 0; i < 5; i++) {
            const answer = await client.next()
            checkHead(answer)
            check(i < 3 ? JSON.parse(answer.body).version : Number(answer.body.slice(6)), least)
          }
        }
      }
      const stay = async (kind) => {
        const client = connect(fleet)
        for (let n = 0; !isDone; n++) {
          await kinds[kind](client, version, n)
          counts[kind]++
          await pause(4 + n % 5)
        }
        client.destroy()
      }
      const come = async () => {
        for (; !isDone; counts.connection++) {
          const least = version
          const answer = await ask(fleet, ...(counts.connection % 2 === 0 ? ['GET', '/version'] : ['POST', '/length', {}, 'some text']))
          assert.strictEqual(answer.status, 200)
          check(JSON.parse(answer.body).version, least)
          await pause(3)
        }
      }
      const call = async () => {
        for (; !isDone; counts.call++) {
          const least = version
          check(await bus.call(counts.call % 2, 'version'), least)
          await pause(4)
        }
      }
      const load = Promise.all([...['get', 'get', 'post', 'post', 'stream', 'stream', 'pipelined'].map(stay), come(), come(), call()])
      const reloading = (async () => {
        for (let i = 1; i <= reloads; i++) {
          code.write(`module.exports = ${i}`)
          await fleet.reload()
          version = i
        }
      })()
      await Promise.race([reloading, load])
      await reloading
      await pause(20)
      isDone = true
      await load
      console.log(JSON.stringify(counts))
      for (const [kind, count] of Object.entries(counts)) assert.ok(count >= reloads, `${kind}: ${count}`)
      assert.deepStrictEqual([gone, bus.lost], [2 * reloads, 0])
      await fleet.close()
      code.remove()
    }, { args: [balance, reloads] })
  }
})

test('a reload whose new code fails leaves the old threads serving, and rejects with the reason', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { connect, descriptors, get, open, request, source, threadNames, until } = require('../fleet/_fleet')
    const { bus } = require('../..')
    const code = source()
    code.write('module.exports = 1')
    const fleet = await open({ workerData: { code: code.path }, launchTimeout: 2000 }, 'versioned.cjs')
    const client = connect(fleet)
    const version = async () => {
      client.write(request('GET', '/version'))
      return JSON.parse((await client.next()).body).version
    }
    assert.strictEqual(await version(), 1)
    code.write('throw Object.assign(new SyntaxError("not good"), { code: "ERR_MINE" })')
    await assert.rejects(fleet.reload(), { name: 'SyntaxError', message: 'not good', code: 'ERR_MINE' })
    const before = descriptors()
    const failures = {
      'throw new Error("nor this")': { message: 'nor this' },
      'process.exit(4)': { code: 'ERR_MILLRACE_THREAD_EXITED', message: /with code 4 before it listened/ },
      'this is no JavaScript': { name: 'SyntaxError' },
      'for (;;);': { code: 'ERR_MILLRACE_LAUNCH' }
    }
    for (const [text, shape] of Object.entries(failures)) {
      code.write(text)
      await assert.rejects(fleet.reload(), shape, text)
      assert.strictEqual(await version(), 1)
      for (const thread of [0, 1]) assert.strictEqual(await bus.call(thread, 'version'), 1)
    }
    await until('nothing stays of them', () => descriptors() <= before)
    assert.deepStrictEqual(threadNames().filter((name) => name.startsWith('mr-')).sort(), ['mr-0', 'mr-1'])
    assert.deepStrictEqual((await get(fleet, '/healthz')).threads.map(({ state }) => state), ['up', 'up'])
    code.write('module.exports = 2')
    await fleet.reload()
    assert.strictEqual(await version(), 2) // on the same connection
    client.destroy()
    await fleet.close()
    code.remove()
  })
})

test('reload: one at a time, hooks are awaited, and what does not end in time is cut', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { connect, descriptors, open, request, source, until } = require('../fleet/_fleet')
    const { bus } = require('../..')
    const code = source()
    code.write('module.exports = 1')
    const gone = []
    bus.on('gone', (version) => { gone.push(version) })
    const fleet = await open({ workerData: { code: code.path } }, 'versioned.cjs')
    const downs = []
    fleet.on('down', (place, reason) => downs.push([place, reason]))
    await Promise.all([fleet.reload(), fleet.reload(), fleet.reload()])
    assert.deepStrictEqual(gone, Array(6).fill(1))
    assert.deepStrictEqual(downs, Array(3).fill([[0, null], [1, null]]).flat())
    const before = descriptors()
    // A request that goes on while its thread is to end is finished there; then the connection goes on elsewhere.
    const slow = connect(fleet)
    slow.write(request('GET', '/slow'))
    await until('it is there', () => fleet.health().threads.some(({ connections }) => connections === 1))
    code.write('module.exports = 2')
    await fleet.reload()
    assert.strictEqual(JSON.parse((await slow.next()).body).version, 1)
    slow.write(request('GET', '/version'))
    assert.strictEqual(JSON.parse((await slow.next()).body).version, 2)
    slow.destroy()
    // One that never ends.
    const never = connect(fleet)
    never.write(request('GET', '/never'))
    await until('it is there', () => fleet.health().threads.some(({ connections }) => connections === 1))
    await fleet.reload({ deadline: 50 })
    assert.strictEqual(await never.ended(), '')
    never.destroy()
    // A thread that reads no mail.
    const stuck = connect(fleet)
    stuck.write(request('GET', '/stuck'))
    await until('it hangs', () => fleet.health().threads.some(({ heartbeatAge }) => heartbeatAge > 200))
    await fleet.reload({ deadline: 50 })
    assert.notStrictEqual(await stuck.ended(), undefined)
    stuck.destroy()
    assert.ok(fleet.health().threads.every(({ state }) => state === 'up'))
    await until('as many descriptors as before', () => descriptors() <= before)
    // The end comes while one goes on.
    const reloading = fleet.reload()
    await Promise.all([fleet.close(), reloading.catch((err) => assert.match(err.code, /^ERR_MILLRACE_/))])
    code.remove()
  })
})
