'use strict'
// Signals: a fleet drains, and its process ends.

const { test } = require('node:test')
const assert = require('node:assert')
const { fork } = require('node:child_process')
const { once } = require('node:events')
const { app, isFree, oneEach, request } = require('./_fleet')

// A process of apps/signals.cjs: { child, port, seen(), exit }. What it says is kept.
async function program (t, settings = {}) {
  const child = fork(app('signals.cjs'), {
    env: { ...process.env, MILLRACE_ENGINE: 'native', SETTINGS: JSON.stringify(settings) },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc']
  })
  t.after(() => child.kill('SIGKILL'))
  const messages = []
  let wake = () => {}
  child.on('message', (message) => { messages.push(message); wake() })
  const exit = once(child, 'exit')
  // The messages so far, when the check likes them.
  const until = (check) => new Promise((resolve, reject) => {
    exit.then((how) => reject(new Error(`it ended with ${how}; it said ${JSON.stringify(messages)}`)))
    wake = () => { if (check(messages)) resolve(messages) }
    wake()
  })
  const [{ port, answers }] = await until(() => messages.length > 0)
  assert.deepStrictEqual(answers, Array(2).fill('ERR_MILLRACE_NO_HANDLER'))
  return { child, port, until, exit, messages }
}

// It hears the signal, answers what is in flight, runs the hooks, and ends with 0.
async function drained (t, signal) {
  const it = await program(t)
  const clients = await oneEach(it, 2) // idle keep-alive connections, one each
  const busy = await oneEach(it, 2)
  for (const client of busy) client.write(request('GET', '/held'))
  await it.until((messages) => messages.filter(({ asked }) => asked !== undefined).length === 2)
  it.child.send('last words')
  it.child.kill(signal)
  // No more connections. What was accepted before is still answered.
  for (const client of clients) await client.ended()
  it.child.send('go')
  for (const [thread, client] of busy.entries()) {
    const answer = await client.next()
    assert.strictEqual(answer.status, 200)
    assert.strictEqual(answer.headers.connection, 'close')
    assert.deepStrictEqual(JSON.parse(answer.body), { thread })
    await client.ended()
  }
  assert.deepStrictEqual(await it.exit, [0, null])
  const { messages } = it
  assert.deepStrictEqual(messages.filter(({ hook }) => hook !== undefined).map(({ hook }) => hook).sort(), [0, 1])
  assert.deepStrictEqual(messages.filter(({ told }) => told !== undefined), Array(2).fill({ told: 'last words' }))
  assert.strictEqual(await isFree(it.port), true)
  for (const client of [...clients, ...busy]) client.destroy()
}

test('SIGTERM and SIGINT drain: sixteen cold starts, with the bus used first and last', async (t) => {
  const rounds = Array.from({ length: 16 }, (_, i) => i % 2 === 0 ? 'SIGTERM' : 'SIGINT')
  const queue = rounds[Symbol.iterator]()
  await Promise.all([0, 1, 2].map(async () => { for (const signal of queue) await drained(t, signal) }))
})

test('a second signal ends it at once', async (t) => {
  for (const [first, second] of [['SIGTERM', 'SIGTERM'], ['SIGINT', 'SIGTERM']]) {
    const it = await program(t)
    const [client] = await oneEach(it, 2)
    client.write(request('GET', '/held'))
    await it.until((messages) => messages.some(({ asked }) => asked === 0))
    it.child.kill(first)
    while (!await isFree(it.port)); // it has heard the first
    it.child.kill(second)
    assert.deepStrictEqual(await it.exit, [1, null])
    client.destroy()
    assert.strictEqual(await isFree(it.port), true)
  }
})

test('at the deadline of a signal what is left is cut, and the exit code is 0 still', async (t) => {
  const it = await program(t, { deadline: 300 })
  const [client] = await oneEach(it, 2)
  client.write(request('GET', '/held')) // nobody ever says go
  await it.until((messages) => messages.some(({ asked }) => asked === 0))
  it.child.kill('SIGTERM')
  assert.strictEqual(await client.ended(), '')
  assert.deepStrictEqual(await it.exit, [0, null])
})

test('signals: false leaves them to the program', async (t) => {
  const it = await program(t, { signals: false })
  it.child.kill('SIGTERM')
  assert.deepStrictEqual(await it.exit, [null, 'SIGTERM'])
})
