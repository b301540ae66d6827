'use strict'
// One thread of it fails while it starts, in the way that workerData names.

const { workerData } = require('node:worker_threads')
const { serve, self } = require('millrace')

const serveIt = () => serve({ port: 0, host: '127.0.0.1', routes: { '/': 'x' } })
const ways = {
  throws: () => { throw Object.assign(new RangeError('broken as told'), { code: 'ERR_AS_TOLD' }) },
  rejects: () => { Promise.reject(new RangeError('broken as told')) },
  exits: () => process.exit(7),
  'never serves': () => { setInterval(() => {}, 1000) },
  'takes a port in use': () => serve({ port: workerData.port, host: '127.0.0.1', routes: { '/': 'x' } })
}
if (self.index === 1) ways[workerData.way]()
else serveIt()
