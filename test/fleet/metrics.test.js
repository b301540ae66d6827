'use strict'
// Metrics of the program's own, over threads and their replacements.

const { test } = require('node:test')
const { run } = require('../proc/_child')

test('values are added up over threads, and totals never go down when threads are replaced or fail', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { get, metric, open, quiet, until } = require('../fleet/_fleet')
    quiet()
    const fleet = await open({ balance: 'rotate' }, 'metrics.cjs')
    for (let i = 0; i < 10; i++) await get(fleet, `/order/${i % 2 ? 'b"\\' : 'a'}`)
    const look = () => {
      const text = fleet.metrics()
      return {
        a: metric(text, 'orders_total{kind="a"}'),
        b: metric(text, 'orders_total{kind="b\\"\\\\"}'),
        sessions: metric(text, 'sessions'),
        highest: metric(text, 'highest'),
        each: [metric(text, 'each{thread="0"}'), metric(text, 'each{thread="1"}')],
        took: [metric(text, 'took_seconds_bucket{le="0.5"}'), metric(text, 'took_seconds_bucket{le="1"}'), metric(text, 'took_seconds_sum'), metric(text, 'took_seconds_count')]
      }
    }
    const whole = { a: 10, b: 10, sessions: 6, highest: 11, each: [0, 1], took: [0, 10, 7.5, 10] }
    assert.deepStrictEqual(look(), whole)
    await fleet.reload()
    assert.deepStrictEqual(look(), whole)
    const requests = () => metric(fleet.metrics(), 'millrace_requests_total{class="2xx"}')
    const before = requests()
    await get(fleet, '/die')
    await until('it is replaced', () => fleet.health().threads.every(({ state }) => state === 'up') && look().sessions === 6)
    assert.deepStrictEqual(look(), whole)
    assert.ok(requests() >= before + 1)
    await fleet.close()
  })
})

test('values from before there is a fleet are kept, and seen by a server on its own', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { metrics, serve } = require('../..')
    const { get, metric } = require('../fleet/_fleet')
    const early = metrics.counter('early_total')
    early.inc(2)
    for (let i = 0; i < 2; i++) {
      const server = await serve({ port: 0, host: '127.0.0.1', metrics: '/metrics' })
      early.inc()
      assert.strictEqual(metric(await get(server, '/metrics'), 'early_total'), 3 + i)
      assert.strictEqual(metric(server.metrics(), 'early_total'), 3 + i)
      await server.close({ deadline: 0 })
    }
    early.inc()
    const without = await serve({ port: 0, host: '127.0.0.1' })
    assert.throws(() => without.metrics(), { code: 'ERR_MILLRACE_UNSUPPORTED' })
    await without.close({ deadline: 0 })
  })
})

test('definitions, labels and values that cannot be are refused, and so is one series too many', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { metrics } = require('../..')
    const refused = (call) => assert.throws(call, { code: 'ERR_MILLRACE_METRIC' })
    const a = metrics.counter('a_total', 'A.', { labels: ['x'] })
    assert.strictEqual(metrics.counter('a_total', 'A.', { labels: ['x'] }), a)
    refused(() => metrics.counter('a_total', 'A.'))
    refused(() => metrics.gauge('a_total'))
    refused(() => metrics.counter('millrace_x'))
    refused(() => metrics.counter('1x'))
    refused(() => metrics.counter('b', '', { labels: ['le'] }))
    refused(() => metrics.counter('b', '', { labels: ['x', 'x'] }))
    refused(() => metrics.counter('b', '', { merge: 'max' }))
    refused(() => metrics.gauge('b', '', { merge: 'mean' }))
    refused(() => metrics.histogram('b', '', { bounds: [2, 1] }))
    refused(() => metrics.histogram('b', '', { bounds: Array.from({ length: 33 }, (_, i) => i) }))
    refused(() => a.inc())
    refused(() => a.labels({ y: 1 }))
    refused(() => a.labels({ x: 'y'.repeat(257) }))
    refused(() => a.labels({ x: 1 }).inc(-1))
    refused(() => a.labels({ x: 1 }).inc(NaN))
    for (let i = 0; i < 999; i++) a.labels({ x: `v${i}` }).inc()
    refused(() => a.labels({ x: 'one too many' }))
    a.labels({ x: 'v1' }).inc()
  })
})
