// `npm start`: builds the native engine if it is out of date, then runs the example server in this
// process. Without a compiler the server still runs, on node:http, and says so.
import './node-version.mjs'
import { ensureBinary, report } from './build.mjs'

const WATCH_MS = 500

if (process.env.MILLRACE_ENGINE !== 'node') {
  try {
    ensureBinary()
  } catch (error) {
    report(error)
    console.error('Going on without a fresh build of the native engine.')
  }
}

// npm passes a SIGTERM to the shell between it and us, which dies of it and tells nobody: whoever
// ends npm would leave the port taken. A parent that has gone shows as another parent.
if (process.env.npm_lifecycle_event === 'start') {
  const parent = process.ppid
  setInterval(() => {
    if (process.ppid !== parent) process.kill(process.pid, 'SIGTERM')
  }, WATCH_MS).unref()
}

await import('../examples/hello.mjs')
