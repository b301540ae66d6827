// node:http with the same answer. Its keep-alive time-out is raised, so that idle connections
// outlive a measurement of their memory.

import { createServer } from 'node:http'
import { announce } from './control.mjs'

function send (res, type, body) {
  res.setHeader('Content-Type', type)
  res.end(body)
}

async function bodyOf (req) {
  const chunks = []
  for await (const chunk of req) chunks.push(chunk)
  return Buffer.concat(chunks)
}

const forms = {
  hello: (req, res) => { send(res, 'text/plain; charset=utf-8', 'Hello, World!') },
  echo: async (req, res) => { send(res, 'application/octet-stream', await bodyOf(req)) },
  json: async (req, res) => { send(res, 'application/json', JSON.stringify(JSON.parse(await bodyOf(req)))) }
}

const server = createServer(forms[process.argv[2] ?? 'hello'])
server.keepAliveTimeout = 75_000
server.listen(0, '127.0.0.1', () => announce(server.address().port, { node: process.version }))
