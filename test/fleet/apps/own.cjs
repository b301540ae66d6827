'use strict'
// A program that calls serve({ threads }): the main thread supervises, its threads run it again.

const { isMainThread } = require('node:worker_threads')
const { serve, self } = require('millrace')

serve({ port: 0, host: '127.0.0.1', threads: 2, fleet: { signals: false }, routes: { '/who': () => ({ thread: self.index, threads: self.threads }) } })
  .then(async (server) => {
    if (!isMainThread) return
    process.send({ index: self.index, threads: server.threads, port: server.port, url: server.url, addresses: server.addresses })
    process.once('message', async () => {
      await server.close()
      process.disconnect()
    })
  })
