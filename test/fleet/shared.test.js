'use strict'
// What the threads of a fleet have in common: the rate limit, a route's concurrency, overload, the access
// log, the supervisor's own port.

const { test } = require('node:test')
const { execFileSync } = require('node:child_process')
const { run } = require('../proc/_child')

test('limits.rate is one budget for all threads, told by 429 and Retry-After, and health passes', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { ask, get, metric, open } = require('../fleet/_fleet')
    const options = { limits: { rate: { perSecond: 0.01, burst: 20, key: 'address' } } }
    const fleet = await open({ threads: 3, workerData: { options } }, 'shared.cjs')
    const all = await Promise.all(Array.from({ length: 60 }, (_, i) => ask(fleet, 'GET', i % 2 ? '/js' : '/')))
    assert.strictEqual(all.filter(({ status }) => status === 200).length, 20)
    const refused = all.filter(({ status }) => status === 429)
    assert.strictEqual(refused.length, 40)
    for (const { headers } of refused) assert.ok(Number(headers['retry-after']) >= 1 && Number(headers['retry-after']) <= 2001, headers['retry-after'])
    assert.strictEqual((await get(fleet, '/healthz')).status, 'ok')
    assert.strictEqual(metric(await get(fleet, '/metrics'), 'millrace_refused_total{reason="rate"}'), 40)
    await fleet.close()
  })
})

test('limits.rate by a field: each value has its budget, and those without the field one together', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { ask, open } = require('../fleet/_fleet')
    const options = { limits: { rate: { perSecond: 0.01, burst: 2, key: 'header:X-Api-Key' } } }
    const fleet = await open({ workerData: { options } }, 'shared.cjs')
    const passed = async (headers) => {
      const all = await Promise.all(Array.from({ length: 5 }, () => ask(fleet, 'GET', '/js', headers)))
      return all.filter(({ status }) => status === 200).length
    }
    assert.strictEqual(await passed({ 'X-Api-Key': 'a' }), 2)
    assert.strictEqual(await passed({ 'x-api-key': 'b' }), 2)
    assert.strictEqual(await passed({ 'x-api-key': 'a' }), 0)
    assert.strictEqual(await passed({}), 2)
    assert.strictEqual(await passed({}), 0)
    await fleet.close()
  })
})

test('a route\'s concurrency holds over all threads; its queue is bounded, and a thread that ends gives back what it held', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { ask, open } = require('../fleet/_fleet')
    const shared = new SharedArrayBuffer(4)
    const fleet = await open({ balance: 'rotate', workerData: { options: {}, shared } }, 'shared.cjs')
    const burst = async () => {
      const all = await Promise.all(Array.from({ length: 40 }, () => ask(fleet, 'GET', '/few')))
      const served = all.filter(({ status }) => status === 200)
      for (const { body } of served) assert.ok(JSON.parse(body).most <= 3, body)
      for (const { status, headers } of all) assert.ok(status === 200 || (status === 503 && headers['retry-after'] === '1'), String(status))
      return served.length
    }
    const fits = 3 + 2 * 5 // more when some are done before the last are asked
    const isBounded = (served) => served >= fits && served < 40
    assert.ok(isBounded(await burst()))
    // All permits are held by threads that are replaced.
    const cut = Array.from({ length: 6 }, () => ask(fleet, 'GET', '/few').catch(() => null))
    await new Promise((resolve) => setTimeout(resolve, 10))
    await fleet.reload({ deadline: 1 })
    await Promise.all(cut)
    new Int32Array(shared)[0] = 0
    assert.ok(isBounded(await burst()))
    await fleet.close()
  })
})

test('overload: requests that waited too long for JavaScript get 503, fixed routes and health go on', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { connect, get, metric, open, request } = require('../fleet/_fleet')
    const fleet = await open({ threads: 1, stuckAfter: 60000, workerData: { options: { overload: { lag: 200 } } } }, 'shared.cjs')
    const clients = Array.from({ length: 4 }, () => connect(fleet))
    for (const client of clients) {
      client.write(request('GET', '/js'))
      assert.strictEqual((await client.next()).status, 200)
    }
    const [blocker, late, fixed, health] = clients
    blocker.write(request('GET', '/block?ms=700'))
    await new Promise((resolve) => setTimeout(resolve, 100))
    late.write(request('GET', '/js'))
    fixed.write(request('GET', '/'))
    health.write(request('GET', '/healthz'))
    const refused = await late.next()
    assert.deepStrictEqual([refused.status, refused.headers['retry-after']], [503, '1'])
    assert.strictEqual((await fixed.next()).status, 200)
    assert.strictEqual((await health.next()).status, 200)
    assert.strictEqual((await blocker.next()).status, 200)
    late.write(request('GET', '/js'))
    assert.strictEqual((await late.next()).status, 200)
    assert.strictEqual(metric(await get(fleet, '/metrics'), 'millrace_refused_total{reason="overload"}'), 1)
    for (const client of clients) client.destroy()
    await fleet.close()
  })
})

test('admin: metrics and health on a port of the supervisor, also when every thread is stuck', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { connect, get, metric, open, quiet, request, until } = require('../fleet/_fleet')
    quiet()
    const fleet = await open({ stuckAfter: 100, admin: { port: 0 }, workerData: { options: { limits: { connections: 2 } } } }, 'shared.cjs')
    for (const client of await oneEachById(2)) client.write(request('GET', '/stuck'))
    await until('all are stuck', async () => (await get(fleet.admin, '/healthz')).threads.every(({ state }) => state === 'stuck'))
    assert.strictEqual((await get(fleet.admin, '/healthz')).status, 'down')
    assert.strictEqual(metric(await get(fleet.admin, '/metrics'), 'millrace_connections_accepted_total') >= 2, true)
    await fleet.close({ deadline: 0 })

    async function oneEachById (threads) {
      const found = new Map()
      for (let i = 0; found.size < threads && i < 200; i++) {
        const client = connect(fleet)
        client.write(request('GET', '/js'))
        const { thread } = JSON.parse((await client.next()).body)
        if (found.has(thread)) {
          client.destroy()
          await until('its place is free', () => fleet.health().threads.reduce((sum, { connections }) => sum + connections, 0) <= found.size)
        } else {
          found.set(thread, client)
        }
      }
      assert.strictEqual(found.size, threads)
      return found.values()
    }
  })
})

test('the access log has a line for each request of every thread, and goes on in a new file after SIGHUP', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const fs = require('node:fs')
    const os = require('node:os')
    const path = require('node:path')
    const { ask, open, until } = require('../fleet/_fleet')
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'millrace-log-'))
    const file = path.join(folder, 'access.log')
    const fleet = await open({ threads: 3, signals: true, workerData: { options: { accessLog: { path: file, format: 'json' } } } }, 'shared.cjs')
    const asked = async (from, to) => {
      await Promise.all(Array.from({ length: to - from }, (_, i) => ask(fleet, 'GET', `/js?n=${from + i}`, { 'User-Agent': 'a "b"\\' })))
    }
    const lines = (name) => fs.existsSync(name) ? fs.readFileSync(name, 'utf8').split('\n').slice(0, -1).map(JSON.parse) : []
    await asked(0, 100)
    await until('the lines are there', () => lines(file).length === 100)
    fs.renameSync(file, `${file}.1`)
    process.kill(process.pid, 'SIGHUP')
    await until('a new file', () => fs.existsSync(file))
    await asked(100, 200)
    await until('the lines are there', () => lines(file).length + lines(`${file}.1`).length === 200)
    assert.ok(lines(file).length > 0)
    const all = [...lines(`${file}.1`), ...lines(file)]
    assert.deepStrictEqual(all.map(({ target }) => Number(target.slice(6))).sort((a, b) => a - b), Array.from({ length: 200 }, (_, i) => i))
    for (const line of all) {
      assert.deepStrictEqual([line.remote, line.method, line.status, line.user_agent, line.protocol], ['127.0.0.1', 'GET', 200, 'a "b"\\', 'HTTP/1.1'])
      assert.ok(line.bytes > 10 && line.duration_us >= 0)
    }
    await fleet.close()
    fs.rmSync(folder, { recursive: true })
  })
})

function hasTaskset () {
  try {
    return /^\s*(?:0-|0,)/.test(execFileSync('taskset', ['-c', '-p', String(process.pid)], { encoding: 'utf8' }).split(':')[1])
  } catch {
    return false
  }
}

test('keepCpu: connections go to the thread of the CPU that they came in on', { skip: !hasTaskset() && 'no taskset, or one CPU' }, async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { execFile } = require('node:child_process')
    const { open } = require('../fleet/_fleet')
    const fleet = await open({ threads: 2, keepCpu: true, workerData: { options: {} } }, 'shared.cjs')
    const script = `(async () => {
      for (let i = 0; i < 20; i++) console.log((await (await fetch('${fleet.url}/js', { headers: { connection: 'close' } })).json()).thread)
    })()`
    for (const cpu of [0, 1]) {
      const text = await new Promise((resolve, reject) => execFile('taskset', ['-c', String(cpu), process.execPath, '-e', script],
        (err, stdout) => err ? reject(err) : resolve(stdout)))
      assert.strictEqual(text, `${cpu}\n`.repeat(20))
    }
    await fleet.close()
  })
})
