// The API as CommonJS uses it.

import millrace = require('millrace')

async function main (): Promise<void> {
  const routes: millrace.Answers['routes'] = { '/': 'x' }
  const options: millrace.ServeOptions = { port: 0, routes, handler: (req) => req.params['x'] ?? null }
  const server: millrace.Server = await millrace.serve(options)
  server.reload({ error: (err) => String(err) })
  await server.close({ deadline: 1000 })
  await millrace.serve()
}

void main
void [millrace.reply, millrace.param, millrace.query, millrace.header, millrace.template, millrace.probe, millrace.version, millrace.MillraceError]
