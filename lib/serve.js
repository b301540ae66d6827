'use strict'
// From options to a running server: check, compile, choose the engine, listen.

const { fault, BUILD_COMMAND } = require('./errors')
const { normalise } = require('./options')
const { compile } = require('./routes')
const { loadNative, wantedEngine, reasonOf, passedOver } = require('./load')

let hasWarned = false

// Once per thread: that somebody runs on the slow engine unawares is the one thing to prevent.
function warn (loaded) {
  if (hasWarned) return
  hasWarned = true
  process.emitWarning(
    `The native engine is not in use, node:http answers instead, many times slower. ${reasonOf(loaded)} ` +
    `Build it with ${BUILD_COMMAND}; ` +
    '`millrace.probe()` shows what was tried; MILLRACE_ENGINE=node asks for node:http and ends this warning.',
    { type: 'MillraceWarning', code: 'MILLRACE_NODE_HTTP' }
  )
}

// Whoever names a file means that file: where another is taken, it is said, and where the native engine
// is insisted on, it is refused.
function checkAsked (loaded, wanted) {
  const why = passedOver(loaded)
  if (why === null) return
  if (wanted === 'native') throw fault('ERR_MILLRACE_NO_NATIVE', why, undefined, 'Correct the variable, or unset it.')
  if (hasWarned) return
  hasWarned = true
  process.emitWarning(`${why} Correct the variable, or unset it.`, { type: 'MillraceWarning', code: 'MILLRACE_BINARY' })
}

async function start (options, app) {
  const wanted = wantedEngine(options.engine)
  if (wanted !== 'node') {
    const loaded = loadNative()
    checkAsked(loaded, wanted)
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
