'use strict'
// A program with metrics of its own.

const { serve, metrics, self } = require('../../..')

const orders = metrics.counter('orders_total', 'Orders.', { labels: ['kind'] })
const sessions = metrics.gauge('sessions', 'Sessions.')
const highest = metrics.gauge('highest', 'The highest.', { merge: 'max' })
const each = metrics.gauge('each', 'Each.', { merge: 'thread' })
const took = metrics.histogram('took_seconds', 'Took.', { bounds: [0.5, 1] })

sessions.set(3)
highest.set(10 + self.index)
each.set(self.index)

serve({
  port: 0,
  host: '127.0.0.1',
  metrics: '/metrics',
  routes: {
    '/order/:kind': (req) => {
      orders.labels({ kind: req.params.kind }).inc(2)
      took.observe(0.75)
      return String(self.index)
    },
    '/die': () => { setImmediate(() => { throw new Error('as told') }); return 'bye' }
  }
})
