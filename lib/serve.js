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

const LISTEN_CODES = { EADDRINUSE: 'ERR_MILLRACE_PORT_IN_USE', EACCES: 'ERR_MILLRACE_PORT_DENIED' }
const LISTEN_TEXTS = { EADDRINUSE: 'is taken by another server.', EACCES: 'may not be opened by this process.' }

// The sentence for a failure to listen; other errors stay as they are.
function listenFault (err, { host, port }) {
  if (typeof err?.code !== 'string' || err.code.startsWith('ERR_')) return err
  const what = LISTEN_TEXTS[err.code] ?? `cannot be listened on (${err.code}).`
  return fault(LISTEN_CODES[err.code] ?? 'ERR_MILLRACE_LISTEN', `Port ${port} on ${host} ${what}`, err)
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
  const app = compile(options)
  try {
    return await start(options, app)
  } catch (err) {
    throw listenFault(err, options)
  }
}

exports.serve = serve
