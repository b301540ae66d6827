'use strict'
// limits.connections holds for all threads together.

const { test } = require('node:test')
const { run } = require('../proc/_child')

test('limits.connections is exact under a burst, and what is freed can be had again', async (t) => {
  for (const balance of process.platform === 'linux' ? ['reuseport', 'rotate'] : ['rotate']) {
    await run(t, async (balance) => {
      const assert = require('node:assert')
      const net = require('node:net')
      const { metric, once, open, quiet, request, until } = require('../fleet/_fleet')
      const { bus } = require('../..')
      const LIMIT = 500
      const BURST = balance === 'reuseport' ? 5000 : 2000
      const fleet = await open({
        threads: 4,
        balance,
        stuckAfter: 60000,
        // Their lingering is not waited for: a refused one stays no longer than it must.
        workerData: { options: { limits: { connections: LIMIT }, timeouts: { linger: 0, keepAlive: 0 } } }
      })
      quiet()
      // Resolves to the thread that answered, -1 for a 503, -2 for an end without a word.
      const open1 = () => new Promise((resolve) => {
        let text = ''
        const socket = net.connect({ port: fleet.port, host: '127.0.0.1' }).setEncoding('latin1')
        socket.on('data', (chunk) => {
          text += chunk
          const [, status, body] = /^HTTP\/1\.1 (\d+)[^]*?\r\n\r\n([^]*)$/.exec(text) ?? []
          if (status === '200' && body.endsWith('}')) resolve({ socket, thread: JSON.parse(body).thread })
          else if (status === '503') resolve({ socket, thread: -1 })
        })
        socket.once('error', () => {}).once('close', () => resolve({ socket, thread: -2 }))
        socket.write(request('GET', '/who'))
      })
      const burst = async (count) => {
        const all = await Promise.all(Array.from({ length: count }, open1))
        const served = all.filter(({ thread }) => thread >= 0)
        for (const { socket, thread } of all) if (thread < 0) socket.destroy()
        return served
      }
      const connections = () => fleet.health().threads.reduce((sum, each) => sum + each.connections, 0)
      let served = await burst(BURST)
      assert.strictEqual(served.length, LIMIT)
      assert.strictEqual(metric(fleet.metrics(), 'millrace_refused_total{reason="limit"}'), BURST - LIMIT)
      await until('the refused are gone', () => connections() === LIMIT)
      assert.deepStrictEqual(await burst(20), []) // one too many, whoever is asked
      // One after the other: each that goes lets one in.
      for (const { socket } of served.splice(0, 3)) {
        await until('the refused are gone', () => connections() <= LIMIT)
        socket.destroy()
        await until('its place is free', () => connections() === LIMIT - 1)
        const [next] = await burst(1)
        served.push(next)
        assert.ok(next.thread >= 0)
        assert.deepStrictEqual(await burst(1), [])
      }
      for (const { socket } of served.splice(0, 200)) socket.destroy()
      await until('200 are free', () => connections() === LIMIT - 200)
      served.push(...await burst(400))
      assert.strictEqual(served.length, LIMIT)
      // A thread's share comes back when it is terminated.
      await until('the refused are gone', () => connections() === LIMIT)
      const share = served.filter(({ thread }) => thread === 2).length
      const up = once(fleet, 'up')
      bus.post(2, 'exit', 1)
      await up
      await until('its share is free', () => connections() === LIMIT - share)
      served = served.filter(({ thread }) => thread !== 2)
      served.push(...await burst(share + 200))
      assert.strictEqual(served.length, LIMIT)
      for (const { socket } of served) socket.destroy()
      await fleet.close({ deadline: 0 })
    }, { args: [balance], descriptors: 16000 })
  }
})
