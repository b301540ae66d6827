'use strict'
// Garbage in the memory that JavaScript shares with the core. No program can get at it without
// reaching for internals; the core distrusts it all the same.

const { test } = require('node:test')
const { run } = require('./_child')

test('random records: the process lives and everybody else is answered', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open, randomFrom, binding } = require('./_inside')
    const { ask, connect, request } = require('../js/_client')
    const random = randomFrom(777)
    const ROUNDS = 400
    const { server, dispatcher, stats } = await open({ routes: { '/js': () => 'js', '/held': () => {} } })
    const { responses, control, output, handle } = dispatcher
    const edges = [0, 1, 2, 7, 63, 64, 65, 199, 200, 204, 500, 599, 600, 2047, 2048, 2049, 65535, 65536, 262143, 262144, 262145, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff]
    const value = () => random() % 3 === 0 ? random() : random() % 2 === 0 ? edges[random() % edges.length] : random() % 300
    const counts = [1, 2, 5, 100, 2047, 2048, 2049, 100000, 0xffffffff]
    const held = connect(server) // records may hit it: what it gets is unknown, that it harms nobody is not
    held.write(request('GET', '/held'))
    for (let i = 0; i < ROUNDS; i++) {
      const count = counts[random() % counts.length]
      for (let k = 0; k < Math.min(count, 64) * 8; k++) responses[k] = value()
      for (let k = 0; k < 32; k++) output[random() % output.length] = random()
      control[0] = count
      control[1] = value()
      if (i % 3 === 0) binding.drain(handle)
      if (i % 3 === 1) await new Promise((resolve) => { setImmediate(resolve) })
      if (i % 20 === 0) assert.strictEqual((await ask(server, 'GET', '/js')).body, 'js')
      control[1] = value()
    }
    control[0] = control[1] = 0
    assert.strictEqual((await ask(server, 'GET', '/js')).body, 'js')
    const { badRecords, staleAnswers } = stats()
    assert.ok(badRecords > 0 && staleAnswers > 0, `${badRecords} bad records, ${staleAnswers} stale answers`)
    held.destroy()
    await server.close({ deadline: 0 })
  })
})

test('a record for a waiting exchange that is unsound is answered 500, by ring and by call', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open, idOf, binding } = require('./_inside')
    const { ask, exchange, request } = require('../js/_client')
    const HEAD = 1 << 16
    const line = 'HTTP/1.1 200 OK\r\n'
    // [words 3 to 7 from the place in the output where the head is, head]
    const sound = (head) => (at) => [HEAD | 200, 0, at, head.length, 0]
    const cases = {
      'no head': ['', sound('')],
      'a bare CR': [line + 'X: a\rb\r\n', sound(line + 'X: a\rb\r\n')],
      'a bare LF': [line + 'X: a\nb\r\n', sound(line + 'X: a\nb\r\n')],
      'an empty line': [line + '\r\nX: y\r\n', sound(line + '\r\nX: y\r\n')],
      'no CRLF at the end': [line + 'X: y', sound(line + 'X: y')],
      'a zero octet': [line + 'X: \0\r\n', sound(line + 'X: \0\r\n')],
      'not a head': ['hello', sound('hello')],
      'status 0': [line, (at) => [HEAD, 0, at, line.length, 0]],
      'status 100': [line, (at) => [HEAD | 100, 0, at, line.length, 0]],
      'status 600': [line, (at) => [HEAD | 600, 0, at, line.length, 0]],
      'an unknown reply': [line, (at) => [200, 60000, at, 0, 0]],
      'reply -1': [line, (at) => [200, 0xffffffff, at, 0, 0]]
    }
    const byRing = {
      'an offset behind the end': [line, () => [HEAD | 200, 0, 262145, line.length, 0]],
      'a head over the end': [line, () => [HEAD | 200, 0, 262144 - 4, line.length, 0]],
      'content over the end': [line, (at) => [HEAD | 200, 0, at, line.length, 262144]],
      'lengths that wrap': [line, (at) => [HEAD | 200, 0, at, line.length, 0xffffffff]],
      'a head that wraps': [line, (at) => [HEAD | 200, 0, at, 0xffffffff, 1]]
    }
    let next = null
    const { server, dispatcher } = await open({
      routes: {
        '/bad' (req) { next(idOf(req)) },
        '/good': () => 'good'
      }
    })
    const { responses, control, output, handle } = dispatcher
    async function check (name) {
      const answers = await exchange(server, ['/good', '/bad', '/good'].map((path) => request('GET', path)).join(''), ['GET', 'GET', 'GET'])
      assert.deepStrictEqual(answers.map(({ status }) => status), [200, 500, 200], name)
    }
    for (const [name, [head, words]] of Object.entries({ ...cases, ...byRing })) {
      next = ({ slot, generation, seq }) => {
        const at = control[1]
        const record = [slot, generation, seq, ...words(at)]
        control[1] += output.latin1Write(head, at)
        for (let i = 0; i < 8; i++) responses[control[0] * 8 + i] = record[i]
        control[0]++
      }
      await check(name)
    }
    for (const [name, [head, words]] of Object.entries(cases)) {
      next = ({ slot, generation, seq }) => {
        const record = new Uint32Array([slot, generation, seq, ...words(0)])
        binding.send(handle, new Uint8Array(record.buffer), head === '' ? null : Buffer.from(head, 'latin1'), null)
      }
      await check(name)
    }
    assert.strictEqual((await ask(server, 'GET', '/good')).body, 'good')
    await server.close({ deadline: 0 })
  })
})

test('calls down with arguments that are not what they should be throw, and nothing else', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open, binding, randomFrom } = require('./_inside')
    const { ask } = require('../js/_client')
    const { server, dispatcher: { handle } } = await open({ handler: () => 'x' })
    const random = randomFrom(99)
    const detached = new Uint8Array(64)
    structuredClone(detached.buffer, { transfer: [detached.buffer] })
    const hostile = new Proxy({}, { get () { throw new Error('get') } })
    const values = () => [undefined, null, true, 0, 1, -1, NaN, Infinity, 2 ** 32, 2 ** 53, '', 'text', '127.0.0.1', 'x'.repeat(1000), {}, [], [{}], [null],
      hostile, () => {}, Symbol('s'), 1n, detached, new Uint8Array(0), new Uint8Array(32), new Uint8Array(32).fill(255), Buffer.from('/a/:b'), new Uint32Array(8),
      new Float64Array(4), new DataView(new ArrayBuffer(8)), new SharedArrayBuffer(8), new Uint8Array(new SharedArrayBuffer(32)), handle, Object.create(handle), new Proxy(handle, {})]
    const names = Object.keys(binding).filter((name) => typeof binding[name] === 'function' && name !== 'destroy' && name !== 'shutdown' && name !== 'listen')
    assert.ok(names.length > 8)
    let thrown = 0
    for (const name of names) {
      for (let i = 0; i < 400; i++) {
        const args = Array.from({ length: random() % 8 }, (_, k) => {
          const all = values()
          return k === 0 && random() % 4 !== 0 ? handle : all[random() % all.length]
        })
        try {
          binding[name](...args)
        } catch (err) {
          thrown++
          assert.ok(err instanceof Error, name)
        }
      }
    }
    assert.ok(thrown > 500, String(thrown))
    const { status } = await ask(server, 'GET', '/') // its routes and replies are in disarray, but it answers
    assert.ok(status >= 200 && status < 600)
    const { server: other } = await open({ handler: () => 'other' })
    assert.strictEqual((await ask(other, 'GET', '/')).body, 'other')
    await other.close({ deadline: 0 })
    await server.close({ deadline: 0 })
    for (const name of names.filter((each) => !/^(?:fleet|series)|Thread$|Permit$|^routeRow$|^copies$/.test(each))) {
      if (name !== 'create' && name !== 'describe') assert.doesNotThrow(() => binding[name](handle), name) // closed: all are no-ops
    }
    assert.doesNotThrow(() => binding.destroy(handle))
  })
})

test('what a program gets hold of may be transferred or detached', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open } = require('./_inside')
    const { ask } = require('../js/_client')
    const take = (buffer) => {
      try {
        structuredClone(buffer, { transfer: [buffer] })
        return 'taken'
      } catch (err) {
        return err.name // memory that Node shares out may not be transferred
      }
    }
    const outcomes = new Set()
    const { server } = await open({
      handler: async (req, res) => {
        assert.strictEqual((await req.bytes()).length, Number(req.header('content-length')))
        outcomes.add(take((await req.arrayBuffer())))
        outcomes.add(take((await req.bytes()).buffer))
        const body = new Uint8Array(200000).fill(66)
        res.send(body)
        take(body.buffer) // it was sent or copied when send() returned
        assert.strictEqual(req.header('x-name'), 'value')
      }
    })
    for (let i = 0; i < 20; i++) {
      for (const size of [1, 100, 5000, 20000, 300000]) {
        const { status, body, headers } = await ask(server, 'POST', '/', { 'X-Name': 'value' }, 'y'.repeat(size))
        assert.deepStrictEqual([status, headers['content-length'], body === 'B'.repeat(200000)], [200, '200000', true])
      }
    }
    assert.ok(outcomes.has('taken'))
    await server.close({ deadline: 0 })
  })
})
