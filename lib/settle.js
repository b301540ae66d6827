'use strict'
// From what a handler returned or threw to an answer. Nothing here throws, whatever the handler did:
// an error of one request is that request's answer and nobody else's business.
// `app` is what routes.js compiled: the error hook and the limit on collected bodies are read from it.

const { types, inspect } = require('node:util')
const { kRequest, kAlive, kStatus, kSent, kReset, kReply } = require('./symbols')
const { fault, statusOf, show } = require('./errors')
const { TEXT, BYTES, JSON_TYPE, reasonOf } = require('./head')
const { finish, fieldsOf } = require('./response')
const { isBytes, toBytes, isJson, toJson } = require('./bodies')

// Queued bytes may reach this many times limits.outgoingBytes before a connection is given up; what
// is collected for one answer obeys the same bound.
const OUTGOING_FACTOR = 4

// Fields of a web Response that describe the transfer it came by, not the one it goes by.
const HOP_BY_HOP = new Set(['connection', 'content-length', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade'])

// Calls a handler and answers with what comes of it.
function run (app, fn, req, res) {
  let value
  try {
    value = fn(req, res)
  } catch (err) {
    fail(app, req, res, err)
    return
  }
  if (value !== undefined) settle(app, req, res, value)
}

function settle (app, req, res, value) {
  try {
    if (typeof value === 'string' && !res[kSent]) {
      finish(res, value, TEXT)
      return
    }
    const later = answer(app, req, res, value)
    if (later !== undefined) later.then(undefined, (err) => fail(app, req, res, err))
  } catch (err) {
    fail(app, req, res, err)
  }
}

function isThenable (value) {
  return typeof value === 'object' && value !== null && (types.isPromise(value) || typeof value.then === 'function')
}

// Answers, or returns a promise that does. Throws what fail() should get.
function answer (app, req, res, value) {
  if (isIdle(res, value)) return undefined
  if (isThenable(value)) return Promise.resolve(value).then((awaited) => answer(app, req, res, awaited))
  if (!res[kAlive]()) return undefined
  if (typeof value === 'string') finish(res, value, TEXT)
  else if (value === null) answerNothing(res)
  else if (value[kReply] !== undefined) res.reply(value)
  else if (typeof value === 'object') return answerObject(app, res, value)
  else throw fault('ERR_MILLRACE_RETURN', `A handler returned ${show(value)}.`)
  return undefined
}

// Whether the value says nothing: `return res.send(…)` and `return res.status(…)` are how people end
// a function, not answers.
function isIdle (res, value) {
  return value === undefined || value === res || (typeof value === 'boolean' && (res[kSent] || !res[kAlive]()))
}

// null is "nothing there": no content, and a status that says so unless another was set.
function answerNothing (res) {
  if (res[kStatus] === 200) res.status(204)
  finish(res, null, null)
}

function tagOf (value) {
  return Object.prototype.toString.call(value)
}

function answerObject (app, res, value) {
  if (isBytes(value)) finish(res, toBytes(value), BYTES)
  else if (tagOf(value) === '[object Response]') return answerResponse(app, res, value)
  else if (typeof value[Symbol.asyncIterator] === 'function') return answerStream(app, res, value)
  else if (isJson(value)) finish(res, toJson(value), JSON_TYPE)
  else throw fault('ERR_MILLRACE_RETURN', `A handler returned ${show(value)}.`, value)
  return undefined
}

// ---- what is collected first ----

function chunkBytes (chunk) {
  if (typeof chunk === 'string') return Buffer.from(chunk)
  if (isBytes(chunk)) return toBytes(chunk)
  throw fault('ERR_MILLRACE_BODY_TYPE', `A stream gave ${show(chunk)}.`)
}

// The whole of a stream; undefined when the client went in the meantime. Leaving the loop early
// destroys the stream.
async function collect (app, res, stream) {
  const max = app.outgoingBytes * OUTGOING_FACTOR
  const chunks = []
  let size = 0
  for await (const chunk of stream) {
    if (!res[kAlive]()) return undefined
    const bytes = chunkBytes(chunk)
    size += bytes.byteLength
    if (size > max) throw fault('ERR_MILLRACE_OUTPUT_TOO_LARGE', `A streamed answer passed ${max} bytes.`)
    chunks.push(bytes)
  }
  return Buffer.concat(chunks, size)
}

async function answerStream (app, res, stream) {
  const body = await collect(app, res, stream)
  if (body !== undefined) finish(res, body, BYTES)
}

async function answerResponse (app, res, response) {
  if (response.bodyUsed) throw fault('ERR_MILLRACE_BODY_TYPE', 'The body of the returned Response was read before.')
  const body = response.body === null ? null : await collect(app, res, response.body)
  if (body === undefined) return
  res.status(response.status)
  const fields = fieldsOf(res)
  const length = body === null ? response.headers.get('content-length') : null
  for (const [name, value] of response.headers) {
    if (!HOP_BY_HOP.has(name)) fields.append(name, value)
  }
  if (/close/i.test(response.headers.get('connection') ?? '')) fields.close = true
  // Without a body, the length can only be that of what HEAD leaves out.
  if (length !== null && res[kRequest]().method === 'HEAD') fields.set('content-length', length)
  finish(res, body, null)
}

// ---- errors ----

// Answers with a status and its reason, whatever was prepared before.
function plain (res, status, close = false) {
  if (res[kSent] || !res[kAlive]()) return
  res[kReset](status)
  if (close) fieldsOf(res).close = true
  finish(res, reasonOf(status), TEXT)
}

function textOf (err) {
  try {
    if (typeof err?.stack === 'string') return err.cause === undefined ? err.stack : inspect(err)
    return inspect(err)
  } catch {
    return 'an error that cannot be shown'
  }
}

function log (what, req, err) {
  try {
    console.error(`millrace: ${what} ${req.method} ${req.url}: ${textOf(err)}`)
  } catch {
    // Nowhere to say it; the request is answered all the same.
  }
}

// A handler threw or rejected.
function fail (app, req, res, err) {
  const status = statusOf(err)
  if (app.error === null) {
    if (status === 500) log('a handler failed on', req, err)
    plainAtLast(res, status)
    return
  }
  callHook(app, req, res, err, status).then(undefined, () => plainAtLast(res, 500))
}

// Async from its first line, but what precedes the first await runs at once.
async function callHook (app, req, res, err, status) {
  const wasSent = res[kSent]
  if (!wasSent) res[kReset](status)
  try {
    let value = app.error(err, req, res)
    if (isThenable(value)) value = await value
    if (wasSent || res[kSent]) return
    const later = answer(app, req, res, value)
    if (later !== undefined) await later
    plainAtLast(res, status)
  } catch (second) {
    // A hook that answers what is answered already did nothing wrong.
    if (!(wasSent && second?.code === 'ERR_MILLRACE_ALREADY_ANSWERED')) log('the error hook failed on', req, second)
    plainAtLast(res, 500)
  }
}

// The last resort: not even a fault of the engine goes further up.
function plainAtLast (res, status) {
  try {
    plain(res, status)
  } catch (err) {
    try {
      console.error(`millrace: no answer could be sent: ${textOf(err)}`)
    } catch {}
  }
}

exports.run = run
exports.settle = settle
exports.fail = fail
exports.plain = plain
