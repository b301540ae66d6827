'use strict'
// The one error class, and the one table of codes. What happened is written where it is thrown;
// the table's sentence says what to do about it, unless the place that throws knows better (`hint`).

const path = require('node:path')
const { inspect, types } = require('node:util')

// A program has this package under node_modules; anywhere else it is a checkout, which npm cannot rebuild
// by its name.
const BUILD_COMMAND = __dirname.split(path.sep).includes('node_modules') ? '`npm rebuild millrace`' : '`npm run build`'

const SENTENCES = {
  ERR_MILLRACE_OPTION: 'The types (lib/index.d.ts) list every option.',
  ERR_MILLRACE_OPTION_RANGE: 'The types (lib/index.d.ts) give the bounds of every option.',
  ERR_MILLRACE_UNSUPPORTED: 'Leave it out until a later version has it.',
  ERR_MILLRACE_ROUTE: 'A route is a text, a reply, a function, or a table of these by method.',
  ERR_MILLRACE_TEMPLATE: 'See reply and template in the types.',
  ERR_MILLRACE_STATUS: 'Give an integer from 200 to 599.',
  ERR_MILLRACE_HEADER: 'Names are tokens; values are latin1 without control characters.',
  ERR_MILLRACE_LENGTH: 'Leave Content-Length out: it is always added.',
  ERR_MILLRACE_BODY_TYPE: 'Give a string, bytes, or what JSON can express.',
  ERR_MILLRACE_RETURN: 'Return a string, bytes, an object, a Response, a stream, a promise of one of these, or nothing.',
  ERR_MILLRACE_ALREADY_ANSWERED: 'Answer each request once; look at res.sent when in doubt.',
  ERR_MILLRACE_BAD_JSON: 'The client has to send valid JSON.',
  ERR_MILLRACE_BODY_TOO_LARGE: 'Raise limits.bodyBytes if such bodies are wanted.',
  ERR_MILLRACE_BAD_BODY: 'The client has to frame its body by RFC 9112.',
  ERR_MILLRACE_BAD_FORM: 'The client has to send multipart/form-data or application/x-www-form-urlencoded.',
  ERR_MILLRACE_BODY_TIMEOUT: 'Raise timeouts.body, or lower limits.bodyBytesPerSecond, if clients are that slow.',
  ERR_MILLRACE_BODY_UNREAD: 'Read the body before the answer is complete.',
  ERR_MILLRACE_BODY_USED: 'Keep what the first reading gave.',
  ERR_MILLRACE_ABORTED: 'Nothing is to be done: the client went.',
  ERR_MILLRACE_EVENT: 'An event has data, event, id, retry and comment; only data and comment may have several lines.',
  ERR_MILLRACE_PORT_IN_USE: 'Stop the other server, choose another port, or give port 0 for a free one.',
  ERR_MILLRACE_PORT_DENIED: 'Choose a port from 1024 up, or give the process the right to open this one.',
  ERR_MILLRACE_SOCKET_IN_USE: 'Stop the other server, or choose another path.',
  ERR_MILLRACE_SOCKET_DENIED: 'Choose another folder, or give the process the right to write there.',
  ERR_MILLRACE_LISTEN: 'Check what the server is to listen on.',
  ERR_MILLRACE_NO_NATIVE: `Build it with ${BUILD_COMMAND}, or leave MILLRACE_ENGINE and the engine option out to run on node:http.`,
  ERR_MILLRACE_LAUNCH: 'The program of a fleet has to call serve() soon after it starts; launchTimeout gives it longer.',
  ERR_MILLRACE_THREAD_FAILED: 'Mend the program; restarts says how many failures in a row are borne.',
  ERR_MILLRACE_THREAD_EXITED: 'Try again: another thread takes its place.',
  ERR_MILLRACE_COPIES: 'Install one version of millrace (npm ls millrace), so that all threads load the same file.',
  ERR_MILLRACE_MESSAGE: 'See bus in the types.',
  ERR_MILLRACE_MAILBOX_FULL: 'Send less, or wait for answers before more is sent.',
  ERR_MILLRACE_CALL_TIMEOUT: 'The thread is busy, or its handler waits; give timeout a higher value if that is to be expected.',
  ERR_MILLRACE_NO_HANDLER: 'Call bus.on() there first.',
  ERR_MILLRACE_METRIC: 'See metrics in the types.',
  ERR_MILLRACE_ACCESS_LOG: 'Check that the folder is there and may be written to.',
  ERR_MILLRACE_CLOSED: 'Start a new server with serve().'
}

function text (code, detail, hint = SENTENCES[code]) {
  return detail === undefined || hint === '' ? detail ?? hint : `${detail} ${hint}`
}

class MillraceError extends Error {
  constructor (code, detail, options, hint) {
    super(text(code, detail, hint), options)
    this.code = code
  }

  get name () {
    return 'MillraceError'
  }

  // A bad limit has to be a RangeError as well; JavaScript has no second parent, so that class is
  // recognised here instead.
  static [Symbol.hasInstance] (value) {
    if (Function.prototype[Symbol.hasInstance].call(this, value)) return true
    return this === MillraceError && value instanceof MillraceRangeError
  }
}

class MillraceRangeError extends RangeError {
  constructor (code, detail, hint) {
    super(text(code, detail, hint))
    this.code = code
  }

  get name () {
    return 'MillraceError'
  }
}

// `hint` stands in place of the table's sentence; '' leaves the detail alone.
function fault (code, detail, cause, hint) {
  return new MillraceError(code, detail, cause === undefined ? undefined : { cause }, hint)
}

function rangeFault (code, detail, hint) {
  return new MillraceRangeError(code, detail, hint)
}

// Faults of the client: the default answer to them is their status, without a line in the log.
const clientFaults = new WeakMap()

function clientFault (code, status, detail, cause) {
  const err = fault(code, detail, cause)
  err.status = status
  clientFaults.set(err, status)
  return err
}

// The status that an error stands for; only of errors made here, as a `status` on anything else
// may mean anything.
function statusOf (err) {
  return (typeof err === 'object' && err !== null && clientFaults.get(err)) || 500
}

// A value on one line; an error without its stack.
function shortOf (value) {
  if (typeof value === 'function') return value.name === '' ? 'a function' : `function ${value.name}`
  if (types.isNativeError(value)) return `${value.name}: ${value.message}`.replace(/\s*\n\s*/g, ' ')
  return inspect(value, { depth: 0, breakLength: Infinity })
}

// A value for an error's text; never throws, and never long.
function show (value) {
  let shown
  try {
    shown = shortOf(value)
  } catch {
    shown = `a ${typeof value}`
  }
  return shown.length > 60 ? `${shown.slice(0, 59)}…` : shown
}

// A count of things for an error's text: 1 byte, 2 bytes.
function countOf (count, noun) {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}

exports.BUILD_COMMAND = BUILD_COMMAND
exports.CODES = Object.freeze(Object.keys(SENTENCES))
exports.MillraceError = MillraceError
exports.fault = fault
exports.rangeFault = rangeFault
exports.clientFault = clientFault
exports.statusOf = statusOf
exports.show = show
exports.countOf = countOf
