// Bun.serve with a fetch handler.

import { announce } from './control.mjs'

const server = globalThis.Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  idleTimeout: 75,
  fetch: () => new Response('Hello, World!')
})
announce(server.port, { version: globalThis.Bun.version })
