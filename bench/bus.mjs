// bus.mjs -- a call from one busy thread to another and back: the bus of a fleet beside a MessagePort,
// in one run, taking turns.
//
//   node bench/bus.mjs [--rounds 5] [--calls 60000] [--window 32] [--bytes 32]
//
// Prints for each: microseconds of CPU (user and system, of the whole process) per round trip, and the
// 50th and 99th percentile of the time of one. `window` calls are under way at any time, which keeps
// both threads busy.

import { parseArgs } from 'node:util'
import { once } from 'node:events'
import { MessageChannel, Worker, isMainThread, parentPort, workerData } from 'node:worker_threads'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

const millrace = createRequire(import.meta.url)('..')
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    calls: { type: 'string', default: '60000' },
    window: { type: 'string', default: '32' },
    bytes: { type: 'string', default: '32' }
  }
})

// Keeps `window` calls under way until `calls` are done; gives the time of each in microseconds.
async function drive (call, { calls, window }) {
  const times = new Float64Array(calls)
  let next = 0
  const lane = async () => {
    while (next < calls) {
      const i = next++
      const from = performance.now()
      await call()
      times[i] = (performance.now() - from) * 1000
    }
  }
  await Promise.all(Array.from({ length: window }, lane))
  return times
}

function percentile (times, share) {
  return [...times].sort((a, b) => a - b)[Math.min(times.length - 1, Math.floor(times.length * share))]
}

async function measured (call, plan) {
  await drive(call, { ...plan, calls: 20000 }) // warm-up
  const before = process.cpuUsage()
  const times = await drive(call, plan)
  const { user, system } = process.cpuUsage(before)
  return { cpu: (user + system) / plan.calls, p50: percentile(times, 0.5), p99: percentile(times, 0.99) }
}

// ---- in the threads ----

function echoOnPort ({ port }) {
  port.on('message', ({ id, data }) => port.postMessage({ id, data }))
}

function callerOfPort (port) {
  const waiting = new Map()
  let last = 0
  port.on('message', ({ id, data }) => {
    waiting.get(id)(data)
    waiting.delete(id)
  })
  return (data) => new Promise((resolve) => {
    const id = ++last
    waiting.set(id, resolve)
    port.postMessage({ id, data })
  })
}

async function portThread () {
  const { role, port, plan } = workerData
  if (role === 'echo') return echoOnPort({ port })
  const call = callerOfPort(port)
  const data = 'x'.repeat(plan.bytes)
  parentPort.on('message', async () => parentPort.postMessage(await measured(() => call(data), plan)))
}

async function busThread () {
  const { bus, self, serve } = millrace
  const { plan } = workerData
  const data = 'x'.repeat(plan.bytes)
  bus.on('echo', (given) => given)
  bus.on('measure', () => measured(() => bus.call(1, 'echo', data), plan))
  if (self.index >= 0) await serve({ port: 0, host: '127.0.0.1' })
}

// ---- the main thread ----

async function main () {
  const plan = { rounds: Number(values.rounds), calls: Number(values.calls), window: Number(values.window), bytes: Number(values.bytes) }
  const file = fileURLToPath(import.meta.url)
  const { port1, port2 } = new MessageChannel()
  const echo = new Worker(file, { workerData: { kind: 'port', role: 'echo', port: port1 }, transferList: [port1] })
  const caller = new Worker(file, { workerData: { kind: 'port', role: 'caller', port: port2, plan }, transferList: [port2] })
  const fleet = await millrace.launch(file, { threads: 2, signals: false, workerData: { kind: 'bus', plan } })
  const all = { bus: [], MessagePort: [] }
  for (let round = 0; round < plan.rounds; round++) {
    all.bus.push(await millrace.bus.call(0, 'measure', undefined, { timeout: Infinity }))
    caller.postMessage('go')
    all.MessagePort.push((await once(caller, 'message'))[0])
  }
  for (const [name, rows] of Object.entries(all)) {
    const median = (key) => percentile(rows.map((row) => row[key]), 0.5).toFixed(2)
    console.log(`${name.padEnd(12)} ${median('cpu')} us CPU, p50 ${median('p50')} us, p99 ${median('p99')} us per round trip`)
  }
  await fleet.close({ deadline: 1000 })
  await Promise.all([echo.terminate(), caller.terminate()])
}

if (isMainThread) await main()
else if (workerData.kind === 'port') await portThread()
else await busThread()
