'use strict'
// Connections that end badly at every stage, and a process without descriptors.

const { test } = require('node:test')
const assert = require('node:assert')
const { start, run } = require('./_child')

test('500 connections aborted at each stage leave no descriptor, connection or memory behind', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open, descriptors, until } = require('./_inside')
    const { connect, request, ask } = require('../js/_client')
    const EACH = 100
    const held = []
    const big = Buffer.alloc(4 << 20, 65)
    const { server, dispatcher, stats } = await open({
      routes: {
        '/held': (req, res) => { held.push(res); res.finished.then(() => {}) },
        '/big': () => big,
        '/body': async (req) => String((await req.bytes()).length),
        '/': 'fixed'
      }
    })
    const stages = {
      connected: [() => '', () => 0],
      halfHead: [() => 'GET / HTTP/1.1\r\nHost: x\r\nX-Half: ', () => 0],
      halfBody: [() => 'POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n' + 'z'.repeat(20000), () => 0],
      inFlight: [() => request('GET', '/held'), () => held.length],
      unread: [() => request('GET', '/big'), () => 0]
    }
    async function round (name, end) {
      const [text, arrived] = stages[name]
      held.length = 0
      const clients = []
      for (let i = 0; i < EACH; i++) {
        const client = connect(server)
        if (name === 'unread') client.socket.pause()
        client.write(text())
        clients.push(client)
      }
      await until('all are connected', () => stats().connections === EACH && clients.every(({ socket }) => !socket.connecting))
      if (name === 'inFlight') await until('all requests have come', () => arrived() === EACH)
      for (const client of clients) client.socket[end]()
      for (const res of held) res.send('too late, or not')
      await until(`no connection is left after ${name}`, () => stats().connections === 0)
    }
    await round('inFlight', 'destroy')
    await ask(server, 'GET', '/')
    await until('it is quiet', () => stats().connections === 0)
    const before = { descriptors: descriptors(), used: stats().usedBytes }
    for (const name of Object.keys(stages)) {
      for (const end of ['destroy', 'resetAndDestroy']) await round(name, end)
    }
    await until('the descriptors are back', () => descriptors() <= before.descriptors)
    assert.strictEqual(stats().usedBytes, before.used)
    assert.strictEqual(dispatcher.watched.size, 0)
    assert.strictEqual((await ask(server, 'GET', '/')).body, 'fixed')
    await server.close({ deadline: 0 })
  })
})

test('30 servers opened and closed leave no descriptor behind, also when listening fails', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open, descriptors, until, pause } = require('./_inside')
    const { ask } = require('../js/_client')
    const { server: other } = await open({ handler: () => 'other' })
    await pause(20)
    const before = descriptors()
    for (let i = 0; i < 30; i++) {
      const { server } = await open({ handler: () => 'x' })
      assert.strictEqual((await ask(server, 'GET', '/')).body, 'x')
      await assert.rejects(open({ port: other.port, handler: () => 'x' }), { code: 'ERR_MILLRACE_PORT_IN_USE' })
      await server.close(i % 2 === 0 ? { deadline: 0 } : undefined)
    }
    await until('the descriptors are back', () => descriptors() <= before)
    await other.close({ deadline: 0 })
  })
})

test('without descriptors the server waits, keeps serving those it has, and takes the others later', async (t) => {
  const { connect, request } = require('../js/_client')
  const { child, result } = start(async () => {
    const { open } = require('./_inside')
    const { server, stats } = await open({ routes: { '/': 'fixed', '/js': () => 'js' } })
    process.on('message', (what) => {
      if (what === 'stats') process.send(stats())
      else server.close({ deadline: 0 }).then(() => process.disconnect())
    })
    process.send({ port: server.port })
  }, { ipc: true, descriptors: 64 })
  const message = (what) => new Promise((resolve) => {
    child.once('message', resolve)
    if (what !== undefined) child.send(what)
  })
  const { port } = await message()
  const COUNT = 150
  const clients = []
  for (let i = 0; i < COUNT; i++) {
    const client = connect({ port })
    client.write(request('GET', i % 2 === 0 ? '/' : '/js'))
    client.answer = client.next().then((answer) => { client.isAnswered = true; return answer })
    client.answer.catch(() => {})
    clients.push(client)
  }
  let stats
  do stats = await message('stats')
  while (stats.acceptFailures < 3 || !clients.some(({ isAnswered }) => isAnswered)) // the back-off tries again by itself
  const first = clients.filter(({ isAnswered }) => isAnswered)
  assert.ok(first.length > 0 && first.length < 64, `${first.length} were answered`)
  t.diagnostic(`${first.length} of ${COUNT} had a connection, accept failed ${stats.acceptFailures} times`)
  // Those that are in go on.
  for (const client of first) {
    client.write(request('GET', '/js'))
    assert.strictEqual((await client.next()).body, 'js')
  }
  let left = clients
  while (left.length > 0) {
    const done = left.filter(({ isAnswered }) => isAnswered)
    for (const client of done) client.destroy()
    left = left.filter((client) => !done.includes(client))
    await Promise.race([new Promise((resolve) => { setTimeout(resolve, 20) }), ...left.map(({ answer }) => answer)])
  }
  for (const [i, client] of clients.entries()) assert.strictEqual((await client.answer).body, i % 2 === 0 ? 'fixed' : 'js')
  child.send('close')
  const { code, signal, err } = await result
  assert.deepStrictEqual({ code, signal, err }, { code: 0, signal: null, err: '' })
})
