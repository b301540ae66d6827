'use strict'
// Clients that go before, while and after they are answered, as the program sees it.

const { test } = require('node:test')
const { run } = require('./_child')

test('req.signal, req.aborted and res.finished tell the truth, and nothing stays watched', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open, until } = require('./_inside')
    const { connect, request } = require('../js/_client')
    const ROUNDS = 40
    let row
    const { server, dispatcher, stats } = await open({
      handler: (req, res) => {
        row = { req, res, aborts: 0, outcomes: [] }
        if (req.path !== '/plain') {
          req.signal.addEventListener('abort', () => { row.aborts++ })
          const mine = row
          res.finished.then((isComplete) => { mine.outcomes.push(isComplete) })
        }
      }
    })
    async function come (path) {
      row = undefined
      const client = connect(server)
      client.write(request('GET', path))
      await until('it has come', () => row !== undefined)
      return [client, row]
    }
    const gone = () => until('the connection is gone', () => stats().connections === 0)
    for (let i = 0; i < ROUNDS; i++) {
      { // before the answer
        const [client, mine] = await come('/watched')
        assert.strictEqual(mine.req.aborted, false)
        client.socket.resetAndDestroy()
        await until('it is noticed', () => mine.outcomes.length > 0)
        assert.deepStrictEqual([mine.aborts, mine.outcomes, mine.req.aborted, mine.res.send('late')], [1, [false], true, false])
        await gone()
      }
      { // before the answer, and nobody asked before
        const [client, mine] = await come('/plain')
        client.socket.resetAndDestroy()
        await gone()
        assert.deepStrictEqual([mine.req.aborted, mine.req.signal.aborted, await mine.res.finished, mine.res.send('late')], [true, true, false, false])
      }
      { // after the answer
        const [client, mine] = await come('/watched')
        assert.strictEqual(mine.res.send('in time'), true)
        assert.strictEqual((await client.next()).body, 'in time')
        client.destroy()
        await until('it is noticed', () => mine.outcomes.length > 0)
        await gone()
        assert.deepStrictEqual([mine.aborts, mine.outcomes, mine.req.aborted], [0, [true], false])
      }
      { // after the answer, asked only then
        const [client, mine] = await come('/plain')
        mine.res.send('in time')
        await client.next()
        assert.deepStrictEqual([mine.req.aborted, mine.req.signal.aborted, await mine.res.finished], [false, false, true])
        client.destroy()
        await gone()
        assert.deepStrictEqual([mine.req.aborted, mine.req.signal.aborted], [false, false])
      }
      { // in the same moment as the answer: either is true, but only one
        const [client, mine] = await come('/watched')
        client.socket.resetAndDestroy()
        mine.res.send('x'.repeat(i * 10000))
        await until('it is noticed', () => mine.outcomes.length > 0)
        await gone()
        assert.deepStrictEqual([mine.outcomes.length, mine.aborts], [1, mine.outcomes[0] ? 0 : 1])
      }
      { // an exchange behind another one, neither answered
        const [client, first] = await come('/watched')
        client.write(request('GET', '/watched'))
        await until('the second has come', () => row !== first)
        const second = row
        second.res.send('held back')
        client.socket.resetAndDestroy()
        await until('both are noticed', () => first.outcomes.length > 0 && second.outcomes.length > 0)
        assert.deepStrictEqual([first.outcomes, second.outcomes], [[false], [false]])
        await gone()
      }
      assert.strictEqual(dispatcher.watched.size, 0)
    }
    await server.close({ deadline: 0 })
  })
})

test('a listener of req.signal that throws is the program\'s business, and only that', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open, until } = require('./_inside')
    const { ask, connect, request } = require('../js/_client')
    const heard = []
    process.on('uncaughtException', (err) => { heard.push(err) })
    let count = 0
    const { server, dispatcher } = await open({
      routes: {
        '/held': (req) => {
          count++
          req.signal.addEventListener('abort', () => { throw null })
          req.signal.onabort = () => { server.reload({ handler: () => 'reloaded' }) }
        },
        '/': () => 'fine'
      }
    })
    const clients = Array.from({ length: 5 }, () => connect(server))
    for (const client of clients) client.write(request('GET', '/held').repeat(2))
    await until('all have come', () => count === 10)
    for (const client of clients) client.socket.resetAndDestroy()
    await until('all were heard', () => heard.length === 10)
    assert.strictEqual(dispatcher.watched.size, 0)
    assert.strictEqual((await ask(server, 'GET', '/')).body, 'fine')
    assert.strictEqual((await ask(server, 'GET', '/else')).body, 'reloaded')
    await server.close({ deadline: 0 })
  })
})
