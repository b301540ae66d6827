'use strict'
// A program of its own for signals: the main thread supervises and tells its parent what it is about.

const { isMainThread, threadId } = require('node:worker_threads')
const { setTimeout: sleep } = require('node:timers/promises')
const { serve, bus, self } = require('millrace')

const settings = JSON.parse(process.env.SETTINGS ?? '{}')
const told = []

if (isMainThread) {
  bus.on('hook', (index) => { process.send({ hook: index }) })
  bus.on('asked', (index) => { process.send({ asked: index }) })
  bus.on('told', (text) => { process.send({ told: text }) })
} else {
  self.onExit(async () => {
    await sleep(20)
    bus.post('main', 'hook', self.index)
  })
  bus.on('tell', (text) => { told.push(text); bus.post('main', 'told', text) })
}

serve({
  port: 0,
  host: '127.0.0.1',
  threads: 2,
  fleet: { deadline: 30000, ...settings },
  health: '/healthz',
  routes: {
    '/who': () => ({ thread: self.index, threadId }),
    // In flight until the parent says go.
    '/held': async () => {
      bus.post('main', 'asked', self.index)
      await new Promise((resolve) => { bus.on('go', resolve) })
      return { thread: self.index }
    }
  }
}).then(async (server) => {
  if (!isMainThread) return
  const answers = await Promise.all([0, 1].map((thread) => bus.call(thread, 'absent').catch((err) => err.code)))
  process.on('message', (message) => {
    if (message === 'go') bus.post('all', 'go')
    else bus.post('all', 'tell', message)
  })
  process.channel.unref()
  server.done.then(() => process.send({ done: true }))
  process.send({ port: server.port, answers })
})
