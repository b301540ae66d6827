// `npm start`: builds the native engine if it is out of date, then runs the example server in this
// process. Without a compiler the server still runs, on node:http, and says so.
import './node-version.mjs'
import { ensureBinary, report } from './build.mjs'

if (process.env.MILLRACE_ENGINE !== 'node') {
  try {
    ensureBinary()
  } catch (error) {
    report(error)
    console.error('Going on without a fresh build of the native engine.')
  }
}

await import('../examples/hello.mjs')
