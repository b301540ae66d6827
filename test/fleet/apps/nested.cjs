'use strict'
// Programs that start fleets where none can be: what they are told is told on.

const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads')
const { serve, launch, bus, self } = require('millrace')

const codeOf = (promise) => promise.then(() => 'it started', (err) => err.code)

async function inside () {
  await serve({ port: 0, host: '127.0.0.1', routes: { '/': 'x' } })
  // In a thread of a fleet `threads` means the fleet's: there is nothing more to start.
  bus.on('launch', () => codeOf(launch(__filename)))
  bus.on('serve', async () => {
    const server = await serve({ port: 0, host: '127.0.0.1', threads: 3, routes: { '/': 'y' } })
    const { constructor: { name } } = server
    await server.close()
    return name
  })
}

async function inWorker () {
  parentPort.postMessage([
    self.index,
    await codeOf(serve({ port: 0, host: '127.0.0.1', threads: 2, routes: { '/': 'x' } })),
    await codeOf(launch(__filename))
  ])
}

if (isMainThread) new Worker(__filename, { workerData: 'worker' }).once('message', (codes) => console.log(JSON.stringify(codes)))
else if (workerData === 'worker') inWorker()
else inside()
