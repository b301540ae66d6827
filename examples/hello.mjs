// The smallest useful server: one fixed route, one compiled template, one JavaScript handler.
//   PORT=8080 HOST=0.0.0.0 node examples/hello.mjs
import { param, probe, reply, serve } from '../lib/index.mjs'

const port = process.env.PORT || 3000
const host = process.env.HOST || '127.0.0.1'

try {
  const server = await serve({
    port,
    host,
    routes: {
      '/': 'Hello, World!',
      '/user/:id': reply`Hello, ${param('id')}!`,
      '/time': () => ({ now: new Date().toISOString() })
    }
  })
  const { transport, simd } = probe()
  const how = server.engine === 'native' ? `transport ${transport}, scanner ${simd}` : 'node:http'
  console.log(`millrace: engine ${server.engine}, ${how}, listening on ${server.url}`)
  console.log(`try: curl ${server.url}/user/you`)

  const stop = () => server.close({ deadline: 5000 })
  process.once('SIGINT', stop)
  process.once('SIGTERM', stop)
} catch (error) {
  // A MillraceError's message is one sentence that says what to do; anything else is a bug.
  console.error(error?.code ? error.message : error)
  process.exitCode = 1
}
