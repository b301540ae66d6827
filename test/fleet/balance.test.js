'use strict'
// Which thread gets a new connection.

const { test } = require('node:test')
const { run } = require('../proc/_child')

const isLinux = process.platform === 'linux'

test('rotate: 2,400 connections over 4 threads are 600 each', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { crowd, leave, open, shares } = require('../fleet/_fleet')
    const fleet = await open({ threads: 4, balance: 'rotate', stuckAfter: 60000 })
    assert.deepStrictEqual(fleet.balance, { mode: 'rotate', reason: 'The option asks for it.' })
    const clients = await crowd(fleet, 2400)
    const counts = shares(clients, 4)
    assert.ok(counts.every((count) => Math.abs(count - 600) <= 1), `${counts}`)
    leave(clients)
    await fleet.close()
  }, { descriptors: 12000 })
})

test('reuseport: 2,400 connections over 4 threads are within 6 sigma of 600 each', { skip: !isLinux }, async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { crowd, leave, open, shares } = require('../fleet/_fleet')
    const fleet = await open({ threads: 4, balance: 'reuseport', stuckAfter: 60000 })
    const clients = await crowd(fleet, 2400)
    const counts = shares(clients, 4)
    const sigma = Math.sqrt(2400 * 0.25 * 0.75)
    assert.ok(counts.every((count) => Math.abs(count - 600) <= 6 * sigma), `${counts}`)
    console.log(`${counts}`)
    leave(clients)
    await fleet.close()
  }, { descriptors: 12000 })
})

test('least: whoever has the fewest gets the next', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { crowd, leave, open, shares, until } = require('../fleet/_fleet')
    const fleet = await open({ threads: 3, balance: 'least', stuckAfter: 60000 })
    const clients = await crowd(fleet, 30)
    assert.deepStrictEqual(shares(clients, 3), [10, 10, 10])
    leave(clients.filter(({ thread }) => thread === 1))
    await until('thread 1 has none left', () => fleet.health().threads[1].connections === 0)
    const more = await crowd(fleet, 10)
    assert.deepStrictEqual(shares(more, 3), [0, 10, 0])
    const rest = await crowd(fleet, 3)
    assert.deepStrictEqual(shares(rest, 3), [1, 1, 1])
    leave([...clients, ...more, ...rest])
    await fleet.close()
  })
})

test('select: the thread that it names; anything else is the next in turn; a throw is a refusal', async (t) => {
  const { err } = await run(t, async () => {
    const assert = require('node:assert')
    const { crowd, connect, leave, metric, open, request, shares } = require('../fleet/_fleet')
    const peers = []
    let answer = 0
    const fleet = await open({
      threads: 3,
      stuckAfter: 60000,
      select: (peer) => {
        peers.push(peer)
        return typeof answer === 'function' ? answer(peer) : answer
      }
    })
    assert.strictEqual(fleet.balance.mode, 'select')
    const place = async (given, count = 6) => {
      answer = given
      const clients = await crowd(fleet, count)
      const counts = shares(clients, 3)
      const ports = clients.map(({ socket }) => socket.localPort)
      leave(clients)
      return { counts, ports }
    }
    for (const thread of [2, 0, 1]) assert.strictEqual((await place(thread)).counts[thread], 6)
    peers.length = 0
    const { ports } = await place(1, 3)
    assert.deepStrictEqual(peers.map(({ ip }) => ip), Array(3).fill('127.0.0.1'))
    assert.deepStrictEqual(peers.map(({ port }) => port).sort(), ports.sort())
    for (const other of [undefined, null, 3, -1, -2, 1.5, NaN, Infinity, '1', true, [1], {}, 2 ** 32, 2 ** 53, () => undefined, async () => 1]) {
      assert.deepStrictEqual((await place(other)).counts, [2, 2, 2], String(other))
    }
    assert.deepStrictEqual((await place(({ port }) => port % 3, 30)).counts.reduce((sum, count) => sum + count), 30)
    const refused = () => metric(fleet.metrics(), 'millrace_refused_total{reason="admit"}')
    assert.strictEqual(refused(), 0)
    answer = () => { throw new Error('nowhere') }
    for (let i = 0; i < 3; i++) {
      const client = connect(fleet)
      client.write(request('GET', '/who'))
      assert.strictEqual(await client.ended(), '')
    }
    assert.strictEqual(refused(), 3)
    assert.strictEqual((await place(2)).counts[2], 6) // it goes on after that
    await fleet.close()
  }, { isQuiet: false })
  require('node:assert').strictEqual(err.match(/the connection is refused: Error: nowhere/g).length, 3)
})

test('select: a thread that is down, stuck or full is passed over; with nobody left it is closed', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { connect, crowd, leave, once, open, quiet, request, shares, switches, until } = require('../fleet/_fleet')
    const { bus } = require('../..')
    const { flag, hang, release, hold, letStart } = switches()
    quiet()
    const fleet = await open({ threads: 3, stuckAfter: 500, select: () => 1, workerData: { flag } })
    hold()
    const down = once(fleet, 'down')
    bus.post(1, 'exit', 1)
    await down
    let clients = await crowd(fleet, 6)
    assert.deepStrictEqual(shares(clients, 3), [3, 0, 3]) // down
    leave(clients)
    const up = once(fleet, 'up')
    letStart()
    await up
    clients = await crowd(fleet, 6)
    assert.deepStrictEqual(shares(clients, 3), [0, 6, 0])
    // Stuck: what came before that was known waits, and is answered in the end.
    hang()
    const [stuck] = clients
    stuck.write(request('GET', '/stuck'))
    await until('it is seen', () => fleet.health().threads[1].state === 'stuck')
    const others = await crowd(fleet, 6)
    assert.deepStrictEqual(shares(others, 3), [3, 0, 3])
    leave(others)
    release()
    assert.deepStrictEqual(JSON.parse((await stuck.next()).body), { thread: 1 })
    leave(clients)
    // Everybody is down.
    hold()
    for (const thread of [0, 1, 2]) bus.post(thread, 'exit', 1)
    await until('all are down', () => fleet.health().threads.every(({ state }) => state !== 'up'))
    const client = connect(fleet)
    client.write(request('GET', '/who'))
    assert.strictEqual(await client.ended(), '')
    letStart()
    await until('all are up', () => fleet.health().threads.every(({ state }) => state === 'up'))
    clients = await crowd(fleet, 6)
    assert.deepStrictEqual(shares(clients, 3), [0, 6, 0])
    leave(clients)
    await fleet.close()
  })
})

test('select: connections for a thread whose mailbox is full go to others, and none is lost', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { crowd, connect, leave, open, request, switches, until } = require('../fleet/_fleet')
    const { flag, release, isHanging } = switches()
    const fleet = await open({ threads: 2, stuckAfter: 3600_000, select: () => 0, workerData: { flag } })
    const [stuck] = await crowd(fleet, 1)
    assert.strictEqual(stuck.thread, 0)
    stuck.write(request('GET', '/stuck'))
    await until('it hangs', isHanging)
    const clients = []
    const answers = Array.from({ length: 1500 }, async () => {
      const client = connect(fleet)
      clients.push(client)
      client.write(request('GET', '/who'))
      return JSON.parse((await client.next()).body).thread
    })
    await until('all are somewhere', () => fleet.health().threads[0].mailboxDepth + fleet.health().threads[1].connections >= 1500)
    assert.strictEqual(fleet.health().threads[0].connections, 1)
    assert.ok(fleet.health().threads[0].mailboxDepth > 100)
    release()
    assert.deepStrictEqual(JSON.parse((await stuck.next()).body), { thread: 0 })
    const counts = [0, 0]
    for (const thread of await Promise.all(answers)) counts[thread]++
    assert.strictEqual(counts[0] + counts[1], 1500)
    assert.ok(counts[0] > 100 && counts[1] > 100, `${counts}`)
    leave([stuck, ...clients])
    await fleet.close()
  }, { descriptors: 12000 })
})

test('connections on their way to a thread that ends go to others, or are closed; none is left hanging', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const net = require('node:net')
    const { crowd, descriptors, open, quiet, request, switches, until } = require('../fleet/_fleet')
    const { bus } = require('../..')
    const workers = new Map()
    process.on('worker', (worker) => workers.set(worker.threadId, worker))
    quiet()
    for (const way of ['message', 'request']) {
      const { flag, hold, isHanging } = switches()
      const fleet = await open({ threads: 2, stuckAfter: 3600_000, select: () => 0, workerData: { flag } })
      const [client] = await crowd(fleet, 1)
      client.socket.on('error', () => {})
      if (way === 'message') bus.post(0, 'hang')
      else client.write(request('GET', '/stuck'))
      await until('it hangs', isHanging)
      const before = descriptors()
      const sockets = []
      const answers = Array.from({ length: 50 }, () => new Promise((resolve) => {
        let text = ''
        const socket = net.connect({ port: fleet.port, host: '127.0.0.1' }).setEncoding('latin1')
        sockets.push(socket)
        socket.write(request('GET', '/who'))
        socket.on('error', () => {}).on('close', () => resolve('closed')).on('data', (chunk) => {
          text += chunk
          if (text.endsWith('}')) resolve(JSON.parse(text.slice(text.indexOf('\r\n\r\n'))).thread)
        })
      }))
      await until('they wait in its mailbox', () => fleet.health().threads[0].mailboxDepth >= 50)
      hold() // nobody takes its place yet
      workers.get(client.threadId).terminate()
      const seen = await Promise.all(answers)
      // One that hangs in the midst of its requests takes in what has come when it is ended.
      if (way === 'message') assert.deepStrictEqual(seen, Array(50).fill(1))
      else assert.deepStrictEqual(seen.filter((each) => each !== 1 && each !== 'closed'), [])
      for (const socket of sockets) socket.destroy()
      await until('nothing stays open of them', () => descriptors() < before)
      await fleet.close({ deadline: 0 })
    }
  })
})

test('admit: only false refuses, and it is asked before select', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { crowd, connect, leave, metric, open, request, shares } = require('../fleet/_fleet')
    let answer = true
    let asked = 0
    let selected = 0
    const options = { admit: ({ ip, port }) => { asked++; return ip === '127.0.0.1' && port > 0 && answer } }
    for (const more of [{}, { balance: 'least' }, { select: () => { selected++; return 1 } }]) {
      const fleet = await open({ ...options, ...more, stuckAfter: 60000 })
      for (answer of [true, undefined, null, 0, '']) {
        const clients = await crowd(fleet, 2)
        assert.deepStrictEqual(shares(clients, 2), more.select === undefined ? [1, 1] : [0, 2])
        leave(clients)
        // Nobody counts at the next round: `least` looks at who is there.
        while (fleet.health().threads.some(({ connections }) => connections > 0)) await new Promise((resolve) => setTimeout(resolve, 5))
      }
      answer = false
      const before = asked
      const client = connect(fleet)
      client.write(request('GET', '/who'))
      assert.strictEqual(await client.ended(), '')
      assert.strictEqual(asked, before + 1)
      assert.strictEqual(metric(fleet.metrics(), 'millrace_refused_total{reason="admit"}'), 1)
      await fleet.close()
    }
    assert.strictEqual(selected, 10)
  })
})

test('a Unix socket is served by all threads, whatever the balance', { skip: process.platform === 'win32' }, async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const fs = require('node:fs')
    const net = require('node:net')
    const os = require('node:os')
    const path = require('node:path')
    const { open, request } = require('../fleet/_fleet')
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'millrace-sock-'))
    const at = path.join(folder, 's')
    const askAt = (where) => new Promise((resolve, reject) => {
      let text = ''
      const socket = net.connect(where).setEncoding('latin1').on('data', (chunk) => { text += chunk })
      socket.once('end', () => resolve(JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4)).thread)).once('error', reject)
      socket.write(request('GET', '/who', { Connection: 'close' }))
    })
    for (const balance of ['auto', 'rotate', 'least']) {
      const fleet = await open({
        balance,
        stuckAfter: 60000,
        workerData: { options: { port: undefined, host: undefined, listen: [{ path: at }, { port: 0, host: '127.0.0.1' }] } }
      })
      assert.strictEqual(fleet.path, at)
      const seen = new Set()
      for (let i = 0; i < 40; i++) seen.add(await askAt({ path: at }))
      assert.deepStrictEqual([...seen].sort(), [0, 1], balance)
      assert.ok([0, 1].includes(await askAt({ port: fleet.addresses[1].port, host: '127.0.0.1' })))
      await fleet.close()
      assert.strictEqual(fs.existsSync(at), false, balance)
    }
    fs.rmSync(folder, { recursive: true })
  })
})

test('a stuck thread loses no new clients, and is named', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { crowd, get, leave, metric, oneEach, open, request, shares, switches, until } = require('../fleet/_fleet')
    const balances = process.platform === 'linux' ? ['reuseport', 'rotate', 'least'] : ['rotate', 'least']
    for (const balance of balances) {
      const { flag, release, isHanging } = switches()
      const fleet = await open({ threads: 3, balance, stuckAfter: 250, workerData: { flag } })
      const [, stuck, third] = await oneEach(fleet, 3)
      stuck.write(request('GET', '/stuck'))
      await until('it hangs', isHanging)
      // These begin before anybody can know; the kernel gives the stuck thread its share of them.
      const early = crowd(fleet, 60)
      await until('it is seen', () => fleet.health().threads[1].state === 'stuck')
      assert.deepStrictEqual((await get(fleet, '/healthz')).threads.map(({ state }) => state), ['up', 'stuck', 'up'], balance)
      assert.match(await get(fleet, '/metrics'), /^millrace_requests_total/m)
      const later = await crowd(fleet, 60)
      assert.strictEqual(shares(later, 3)[1], 0)
      // Handed over by the supervisor, they wait in the mailbox of the thread: its own ones it gets back.
      if (balance === 'reuseport') assert.strictEqual(shares(await early, 3)[1], 0)
      third.write(request('GET', '/who')) // who was there before is not disturbed
      assert.strictEqual(JSON.parse((await third.next()).body).thread, 2)
      release()
      assert.deepStrictEqual(JSON.parse((await stuck.next()).body), { thread: 1 })
      leave([...await early, ...later])
      await until('it is well again', () => fleet.health().threads[1].state === 'up')
      leave(await oneEach(fleet, 3))
      assert.ok(metric(fleet.metrics(), 'millrace_connections_accepted_total') >= 120)
      await fleet.close()
    }
  })
})
