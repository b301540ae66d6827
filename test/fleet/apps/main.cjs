'use strict'
// The program that most tests of the fleet launch: it tells who answers, and does as it is told.

const { isMainThread, threadId, workerData } = require('node:worker_threads')
const { setTimeout: sleep } = require('node:timers/promises')
const { serve, bus, self } = require('millrace')

// Shared with the supervisor: [0] is 0 while `/stuck` is to hang, [1] is 1 while nobody may start; [2] is
// how many hang now.
const flag = workerData?.flag === undefined ? null : new Int32Array(workerData.flag)
while (flag !== null && Atomics.load(flag, 1) === 1) Atomics.wait(flag, 1, 1)
const held = []
const seen = []
const kept = []
let lostOrder = 0
const lastOf = new Map()

const name = (value) => Buffer.isBuffer(value) ? 'Buffer' : value === null ? 'null' : value?.constructor?.name ?? typeof value

const work = {
  who: () => ({ thread: self.index, threads: self.threads, threadId, isMainThread }),
  echo: (data) => data,
  describe: (data) => ({ type: name(data), length: data?.length }),
  fail: (data) => { throw Object.assign(new TypeError(data), { code: 'AS_TOLD' }) },
  later: async (ms) => { await sleep(ms); return 'late' },
  never: () => new Promise(() => {}),
  see: (data) => { seen.push(data) },
  seen: () => seen,
  keep: (data) => { kept.push(data) },
  kept: () => kept.map((each) => [each.length, each[0], each.at(-1), each.every((octet) => octet === each[0])]),
  // Each pair counts up by itself: { n }.
  count: ({ n }, { from }) => {
    if (n !== (lastOf.get(from) ?? 0) + 1) lostOrder++
    lastOf.set(from, n)
  },
  counted: () => ({ lostOrder, last: Object.fromEntries(lastOf) }),
  // Posts or calls from this thread to others, and tells what came of it.
  postTo: ({ to, name, data, times = 1 }) => {
    let sent = 0
    for (let i = 0; i < times; i++) if (bus.post(to, name, data)) sent++
    return { sent, lost: bus.lost }
  },
  countTo: ({ to, times }) => {
    let sent = 0
    for (let n = 1; n <= times; n++) if (bus.post(to, 'count', { n })) sent++
    return sent
  },
  callTo: async ({ to, name, data, options }) => {
    try {
      return { value: await bus.call(to, name, data, options) }
    } catch (err) {
      return { code: err.code, name: err.name, message: err.message }
    }
  },
  hang: () => hang(),
  release: () => {
    const count = held.length
    for (const res of held.splice(0)) res.send(String(self.index))
    return count
  },
  held: () => held.length,
  exit: (code) => process.exit(code),
  throwLater: (text) => { setImmediate(() => { throw new Error(text) }) },
  reject: (text) => { Promise.reject(new Error(text)) },
  lost: () => bus.lost
}
for (const [each, handler] of Object.entries(work)) bus.on(each, handler)
bus.on('main', (data, { from }) => bus.post('main', 'heard', { data, from, thread: self.index }))

function hang () {
  Atomics.add(flag, 2, 1)
  while (Atomics.load(flag, 0) === 0) Atomics.wait(flag, 0, 0)
  Atomics.sub(flag, 2, 1)
}

if (workerData?.hook !== undefined) {
  self.onExit(async () => {
    await sleep(20)
    bus.post('main', 'hook', self.index)
  })
}

serve({
  port: 0,
  host: '127.0.0.1',
  metrics: '/metrics',
  health: '/healthz',
  ready: '/readyz',
  ...workerData?.options,
  routes: {
    '/fixed': 'fixed',
    '/who': () => ({ thread: self.index, threadId }),
    '/held': (req, res) => { held.push(res); return res },
    '/stuck': () => { hang(); return { thread: self.index } },
    'POST /length': async (req) => String((await req.bytes()).length),
    ...workerData?.routes
  }
})
