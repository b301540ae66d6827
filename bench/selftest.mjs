// Tests of the bench itself: node --test bench/selftest.mjs
// A generator that counts wrongly or overlooks a wrong answer would make every figure worthless.

import assert from 'node:assert/strict'
import { execFile, execFileSync, spawn } from 'node:child_process'
import { createServer } from 'node:net'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { build } from './lib/build.mjs'
import { parseCpuList } from './lib/machine.mjs'
import { digits, judge, median, summarise } from './lib/report.mjs'

const programs = build()
const here = fileURLToPath(new URL('.', import.meta.url))
const good = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

function load (port, ...args) {
  const defaults = ['--port', port, '--connections', 2, '--expect-body', 'ok']
  return new Promise((resolve, reject) => {
    execFile(programs.load, [...defaults, ...args].map(String), { timeout: 30_000 }, (error, stdout, stderr) => {
      if (!stdout.startsWith('{')) return reject(error ?? new Error(stderr))
      resolve({ code: error?.code ?? 0, ...JSON.parse(stdout) })
    })
  })
}

/** A server that hands every request on a connection to `answer(socket, index)`. */
async function withServer (answer, work) {
  const sockets = new Set()
  const server = createServer((socket) => {
    let text = ''
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    socket.setEncoding('latin1').on('data', (chunk) => {
      text += chunk
      for (let end; (end = text.indexOf('\r\n\r\n')) >= 0; text = text.slice(end + 4)) answer(socket, server.asked++)
    })
  })
  server.asked = 0
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    return await work(server.address().port, server)
  } finally {
    for (const socket of sockets) socket.destroy()
    server.close()
  }
}

function startFloor (...args) {
  const child = spawn(programs.floor, args.map(String), { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const next = async () => JSON.parse((await lines.next()).value)
  return { pid: child.pid, next, end: () => { child.stdin.end(); return next() } }
}

const requestBytes = (...args) => JSON.parse(execFileSync(programs.load, ['--print-request', ...args])).requestBytes

test('histogram and response reader', () => {
  const compiler = process.env.CC || 'cc'
  const program = join(programs.load, '..', 'units_test')
  const flags = ['-std=c11', '-g', '-O1', '-fsanitize=address,undefined', '-fno-sanitize-recover']
  execFileSync(compiler, [...flags, '-o', program, join(here, 'c', 'units_test.c')])
  execFileSync(program, { stdio: ['ignore', 'inherit', 'inherit'] })
})

const loads = {
  'depth 1': [],
  'depth 16': ['--depth', 16],
  'connection each': ['--close'],
  'fixed rate': ['--rate', 2000],
  bodies: ['--body-bytes', 100, '--depth', 3]
}
for (const [title, args] of Object.entries(loads)) {
  test(`generator and floor count the same: ${title}`, async () => {
    const closes = args.includes('--close')
    const own = args.filter((arg, i) => arg === '--close' || arg === '--body-bytes' || args[i - 1] === '--body-bytes')
    const floor = startFloor('--request-bytes', requestBytes(...own.map(String)), ...(closes ? ['--close'] : []))
    const { port } = await floor.next()
    const result = await load(port, '--warmup', 0.1, '--seconds', 0.3, '--expect-body', 'Hello, World!', ...args)
    const end = await floor.end()
    assert.equal(result.errors, 0, result.firstError)
    assert.equal(result.answered, result.sent)
    assert.equal(end.requests, result.answered)
    assert.equal(end.accepts, closes ? result.answered : 2)
    assert.ok(result.requests > 0 && result.requests < result.answered)
  })
}

test('CPU time of the window is what the server says of itself', async () => {
  const floor = startFloor('--request-bytes', requestBytes())
  const { port } = await floor.next()
  // A counted run has no warm-up: its window is all that the server does after its start.
  const { server } = await load(port, '--requests', 60_000, '--expect-body', 'Hello, World!', '--pid', floor.pid)
  const end = await floor.end()
  const own = (end.user_us + end.system_us) * 1000
  assert.ok(Math.abs(server.totalNs - own) < own * 0.05 + 12e6, `${server.totalNs} ns by its clock, ${own} ns by getrusage`)
  assert.ok(server.userTicksNs <= server.ticksNs)
})

const faults = {
  'another status': ['status', (socket) => socket.write(good.replace('200', '500'))],
  'another body': ['body', (socket) => socket.write(good.replace(/ok$/, 'no'))],
  'a longer body': ['body', (socket) => socket.write(good.replace('2\r', '3\r') + '!')],
  'no HTTP': ['malformed', (socket) => socket.write('hello\r\n\r\n')],
  'octets too many': ['unasked', (socket) => socket.write(good + good)],
  'a close before the answer': ['earlyClose', (socket) => socket.end()],
  'half an answer': ['earlyClose', (socket) => socket.end(good.slice(0, -1))],
  'no answer': ['stalled', () => {}]
}
for (const [title, [kind, answer]] of Object.entries(faults)) {
  test(`counts ${title} as ${kind}`, () => withServer(answer, async (port) => {
    const result = await load(port, '--requests', 2)
    assert.ok(result.errorKinds[kind] > 0, JSON.stringify(result))
    assert.equal(result.code, 1)
  }))
}

test('one wrong answer among many is found', () => withServer((socket, index) => {
  socket.write(index === 777 ? good.replace(/ok$/, 'no') : good)
}, async (port) => {
  const result = await load(port, '--requests', 1600, '--depth', 16)
  assert.deepEqual([result.errors, result.errorKinds.body, result.answered], [1, 1, 1600])
}))

test('reports a port where nobody listens', async () => {
  const port = await withServer(() => {}, async (port) => port)
  assert.ok((await load(port, '--requests', 2)).errors > 0)
})

test('answers in pieces, in chunks, and with the close that was asked for', async () => {
  await withServer((socket, index) => {
    const half = good.length >> 1
    socket.write(good.slice(0, half))
    setImmediate(() => socket.write(good.slice(half)))
  }, async (port) => assert.equal((await load(port, '--requests', 200)).errors, 0))
  const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n'
  await withServer((socket) => socket.write(chunked), async (port) => assert.equal((await load(port, '--requests', 200, '--depth', 4)).errors, 0))
  await withServer((socket) => socket.end('HTTP/1.1 200 OK\r\n\r\nok'), async (port) => assert.equal((await load(port, '--requests', 50, '--close')).errors, 0))
})

test('a server that keeps open what it was asked to close is an error', () => withServer((socket) => {
  socket.write(good)
}, async (port) => assert.equal((await load(port, '--requests', 2, '--close')).errorKinds.stalled, 2)))

test('a connection that ends between answers is opened anew and counted', () => withServer((socket, index) => {
  if (index % 10 === 9) socket.end(good.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'))
  else socket.write(good)
}, async (port) => {
  const result = await load(port, '--requests', 100, '--connections', 1)
  assert.deepEqual([result.errors, result.answered, result.reconnects], [0, 100, 10])
}))

test('fixed rate: what a stalled server kept from being sent is reported, and waiting counts as latency', () => withServer((socket, index) => {
  // The tenth answer takes a while, and the schedule goes on meanwhile.
  if (index === 9) setTimeout(() => socket.write(good), 250)
  else socket.write(good)
}, async (port) => {
  const result = await load(port, '--connections', 1, '--rate', 1000, '--warmup', 0, '--seconds', 1)
  assert.equal(result.errors, 0)
  // One request was held up. Had the others not been counted from their due times, all latencies
  // together would be hardly more than that one's.
  const { mean, max } = result.latencyUs
  assert.ok(mean * result.requests > 5 * max, JSON.stringify(result))
  assert.ok(result.answered + result.unsent >= 990, JSON.stringify(result))
}))

test('idle connections: held until told, and a server that drops them is found out', async () => {
  const hold = (port) => {
    const child = spawn(programs.load, ['--port', port, '--connections', '300', '--idle'].map(String), { stdio: ['pipe', 'pipe', 'ignore'] })
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    return { child, next: async () => JSON.parse((await lines.next()).value) }
  }
  await withServer((socket) => socket.write(good), async (port, server) => {
    const { child, next } = hold(port)
    assert.deepEqual(await next(), { ready: 300 })
    assert.equal(server.asked, 300)
    child.stdin.end()
    assert.deepEqual(await next(), { held: 300 })
  })
  const opened = []
  await withServer((socket) => { opened.push(socket); socket.write(good) }, async (port) => {
    const { child, next } = hold(port)
    await next()
    opened[0].destroy()
    await once(opened[0], 'close')
    child.stdin.end()
    assert.deepEqual(await next(), { held: 299 })
  })
})

test('reports: medians, ratios inside a round, targets', () => {
  const rounds = [
    { floor: { totalUs: 2 }, a: { totalUs: 4 } },
    { floor: { totalUs: 4 }, a: { totalUs: 4 } },
    { floor: { totalUs: 1 }, a: { totalUs: 3 } }
  ]
  const scenarios = [{ name: 'a', title: 'A', floor: 'floor' }, { name: 'b', title: 'B' }]
  const problems = new Map([['b', { status: 'FAILED', reason: 'why' }]])
  const [a, b] = summarise(scenarios, rounds, problems)
  assert.deepEqual(a.ratio, { median: 2, min: 1, max: 3, rounds: 3 })
  assert.deepEqual([b.status, b.totalUs], ['FAILED', undefined])
  const target = { scenario: 'a', what: 'totalUs', of: 'floor' }
  const verdicts = judge([{ ...target, limit: 2 }, { ...target, limit: 1.9 }, { ...target, scenario: 'b', limit: 9 }], rounds, problems)
  assert.deepEqual(verdicts.map(({ verdict }) => verdict), ['PASS', 'FAIL', 'n/a'])
  assert.equal(median([4, 1, 3, 2]), 2.5)
  assert.deepEqual([digits(0.1234), digits(1.234), digits(12.34), digits(1234.5), digits(undefined)], ['0.123', '1.23', '12.3', '1235', '-'])
  assert.deepEqual(parseCpuList('0-2,5'), [0, 1, 2, 5])
})
