'use strict'
// From options to a running server: check, compile, choose the engine, listen.

const { fault } = require('./errors')
const { normalise } = require('./options')
const { compile } = require('./routes')
const { loadNative, wantedEngine, reasonOf } = require('./load')

let hasWarned = false

// Once per thread: that somebody runs on the slow engine unawares is the one thing to prevent.
function warn (loaded) {
  if (hasWarned) return
  hasWarned = true
  process.emitWarning(
    `The native engine is not in use, node:http answers instead, many times slower. ${reasonOf(loaded)} ` +
    'Build it with `npm rebuild millrace`; `millrace.probe()` shows what was tried; MILLRACE_ENGINE=node asks for node:http and ends this warning.',
    { type: 'MillraceWarning', code: 'MILLRACE_NODE_HTTP' }
  )
}

async function start (options, app) {
  const wanted = wantedEngine(options.engine)
  if (wanted !== 'node') {
    const loaded = loadNative()
    if (loaded.binding !== null) return require('./native').createServer(options, app, loaded.binding)
    if (wanted === 'native') throw fault('ERR_MILLRACE_NO_NATIVE', `The native engine cannot be used. ${reasonOf(loaded)}`)
    warn(loaded)
  }
  return require('./node-engine').createServer(options, app)
}

async function serve (given) {
  const options = normalise(given)
  return start(options, compile(options))
}

exports.serve = serve
