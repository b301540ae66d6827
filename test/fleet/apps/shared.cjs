'use strict'
// A program for what threads share: its options are workerData.options, with these routes.

const { workerData, threadId } = require('node:worker_threads')
const { serve, self } = require('../../..')

serve({
  port: 0,
  host: '127.0.0.1',
  metrics: '/metrics',
  health: '/healthz',
  ...workerData.options,
  routes: {
    '/': 'fixed',
    '/js': () => ({ thread: self.index, id: threadId }),
    '/stuck': () => { for (;;); },
    '/block': (req) => {
      const until = Date.now() + Number(req.query.get('ms'))
      while (Date.now() < until);
      return 'blocked'
    },
    '/few': {
      GET: async () => {
        const most = Atomics.add(new Int32Array(workerData.shared), 0, 1) + 1
        await new Promise((resolve) => setTimeout(resolve, 30))
        Atomics.sub(new Int32Array(workerData.shared), 0, 1)
        return { most }
      },
      limits: { concurrency: 3, queue: 5 }
    }
  }
})
