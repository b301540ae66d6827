// millrace, by its public API. The argument picks the form of the one route.

import { serve, reply, param, probe } from '../../lib/index.mjs'
import { announce } from './control.mjs'

const forms = {
  fixed: { '/': 'Hello, World!' },
  template: { '/user/:id': reply`${param('id')}` },
  js: { '/': (req, res) => 'Hello, World!' },
  async: { '/': async (req, res) => 'Hello, World!' },
  echo: { '/echo': { POST: async (req, res) => { res.send(await req.bytes()) } } },
  json: { '/json': { POST: async (req, res) => await req.json() } }
}

const routes = forms[process.argv[2]]
if (!routes) throw new Error(`no such form: ${process.argv[2]}`)

const server = await serve({ port: 0, host: '127.0.0.1', routes })
const { transport, reason, simd, version } = probe()
announce(Number(new URL(server.url).port), {
  engine: server.engine, transport, reason, simd, version, node: process.version
})
