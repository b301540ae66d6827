// node:http with the same answer. Its keep-alive time-out is raised, so that idle connections
// outlive a measurement of their memory.

import { createServer } from 'node:http'
import { announce } from './control.mjs'

const server = createServer((req, res) => {
  res.setHeader('Content-Type', 'text/plain; charset=utf-8')
  res.end('Hello, World!')
})
server.keepAliveTimeout = 75_000
server.listen(0, '127.0.0.1', () => announce(server.address().port, { node: process.version }))
