'use strict'
// From options to a running server: check, compile, choose the engine, listen.

const { pathToFileURL } = require('node:url')
const { fault, BUILD_COMMAND } = require('./errors')
const { normalise } = require('./options')
const { compile } = require('./routes')
const { loadNative, wantedEngine, reasonOf, passedOver } = require('./load')
const { crew } = require('./crew')
const { FleetHere } = require('./fleet-here')
const { checkPlace, entryOf, launchWith, normaliseFleet, ownEntry } = require('./fleet')

let hasWarned = false
let capture = null // the FleetHere that waits for a program to serve
let calls = 0 // of serve() in this thread

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
  const server = await require('./node-engine').createServer(options, app)
  capture?.add(server)
  return server
}

// Without a binary there is one thread, whatever was asked for.
async function serveFleet (given, options, app) {
  checkPlace('serve({ threads })')
  const loaded = wantedEngine(options.engine) === 'node' ? { binding: null } : loadNative()
  if (loaded.binding === null) return start(options, app)
  return launchWith(loaded.binding, ownEntry(), normaliseFleet(given.fleet, options.threads))
}

// Who launched the program may know better where it listens. That is for its first server: two of them
// cannot be at one port.
function overridden (given, overrides) {
  if (calls > 1 || overrides === undefined || given === null || typeof given !== 'object') return given
  const all = { ...given, ...overrides }
  if (overrides.port !== undefined) for (const name of ['listen', 'path', 'fd']) delete all[name]
  return all
}

async function serve (given = {}) {
  calls++
  const options = normalise(overridden(given, crew === null ? capture?.overrides : crew.overrides))
  const app = compile(options) // so that mistakes are seen here, once
  if (options.threads > 1 && crew === null) return serveFleet(given, options, app)
  return start(options, app)
}

// Where there is no binary the program is run here, as the only thread: what it serves is the fleet.
async function launchHere (entry, options) {
  const here = new FleetHere(options)
  capture = here
  try {
    await import(entry instanceof URL ? entry.href : pathToFileURL(entry).href)
    return await here.listening(options.launchTimeout)
  } finally {
    capture = null
  }
}

async function launch (entry, given) {
  const program = entryOf(entry)
  const options = normaliseFleet(given)
  checkPlace('launch()')
  const wanted = wantedEngine()
  const loaded = loadNative()
  if (wanted !== 'node' && loaded.binding !== null) return launchWith(loaded.binding, program, options)
  if (wanted === 'native') throw fault('ERR_MILLRACE_NO_NATIVE', `The native engine cannot be used. ${reasonOf(loaded)}`)
  return launchHere(program, options)
}

exports.serve = serve
exports.launch = launch
exports.hasServed = () => calls > 0
