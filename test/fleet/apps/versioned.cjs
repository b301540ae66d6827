'use strict'
// A program whose code changes: the version is read from a module that the test writes anew.

const { workerData } = require('node:worker_threads')
const { setTimeout: sleep } = require('node:timers/promises')
const { serve, bus, self } = require('millrace')
const version = require(workerData.code)

bus.on('version', () => version)
bus.on('never', () => new Promise(() => {}))
self.onExit(() => { bus.post('main', 'gone', version) })

serve({
  port: 0,
  host: '127.0.0.1',
  health: '/healthz',
  ...workerData.options,
  routes: {
    '/fixed': `fixed ${version}`,
    '/version': () => ({ version, thread: self.index }),
    '/slow': async () => { await sleep(100); return { version, thread: self.index } },
    '/never': () => new Promise(() => {}),
    '/stuck': () => { for (;;); },
    'POST /length': async (req) => ({ version, length: (await req.bytes()).length }),
    '/stream': async function * () {
      for (let i = 0; i < 8; i++) {
        yield `${version} ${i}\n`
        await sleep(1)
      }
    }
  }
})
