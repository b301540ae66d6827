'use strict'
// From what a handler returned or threw to an answer. Nothing here throws, whatever the handler did:
// an error of one request is that request's answer and nobody else's business.
// `app` is what routes.js compiled: the error hook is read from it.

const { types, inspect } = require('node:util')
const { kRequest, kAlive, kStatus, kSent, kReset, kReply } = require('./symbols')
const { fault, statusOf, show } = require('./errors')
const { TEXT, BYTES, JSON_TYPE, reasonOf, hasNoContent } = require('./head')
const { finish, fieldsOf, begin, endStream, abort, writeTo, pieceOf } = require('./response')
const { isBytes, toBytes, isJson, toJson } = require('./bodies')

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
  if (!res[kAlive]()) {
    letGo(value)
    return undefined
  }
  if (typeof value === 'string') finish(res, value, TEXT)
  else if (value === null) answerNothing(res)
  else if (value[kReply] !== undefined) res.reply(value)
  else if (typeof value === 'object') return answerObject(res, value)
  else throw fault('ERR_MILLRACE_RETURN', `A handler returned ${show(value)}.`)
  return undefined
}

// What was returned for a client that has gone: nobody will read it.
function letGo (value) {
  if (typeof value !== 'object' || value === null) return
  const source = value instanceof Response ? value.body : value
  const ignore = () => {}
  if (typeof source?.destroy === 'function') {
    source.on?.('error', ignore)
    source.destroy()
  } else if (typeof source?.cancel === 'function') {
    Promise.resolve(source.cancel()).catch(ignore)
  } else if (typeof source?.return === 'function' && typeof source[Symbol.asyncIterator] === 'function') {
    Promise.resolve(source.return()).catch(ignore)
  }
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

function answerObject (res, value) {
  if (isBytes(value)) finish(res, toBytes(value), BYTES)
  else if (tagOf(value) === '[object Response]') return answerResponse(res, value)
  else if (typeof value[Symbol.asyncIterator] === 'function') return answerStream(res, value, BYTES)
  else if (isJson(value)) finish(res, toJson(value), JSON_TYPE)
  else throw fault('ERR_MILLRACE_RETURN', `A handler returned ${show(value)}.`, value)
  return undefined
}

// ---- streams ----

// What is streamed: next() as an iterator has it, cancel() to be called while next() waits too. An
// iterator's own return() would wait with it where it is a generator's, as a Readable's is.
function sourceOf (stream) {
  if (tagOf(stream) === '[object ReadableStream]') {
    const reader = stream.getReader()
    return { next: () => reader.read(), cancel: () => reader.cancel() }
  }
  const iterator = stream[Symbol.asyncIterator]()
  const isReadable = typeof stream.destroy === 'function' && typeof stream.pipe === 'function'
  return {
    next: () => iterator.next(),
    cancel: isReadable ? async () => { stream.destroy() } : async () => iterator.return?.()
  }
}

// One piece that is all, and is there without waiting for anything outside this process, is sent
// whole, with its length: most web Responses. { chunk, isEnded, rest }; `rest`: the next step.
async function takeFirst (source) {
  const first = await source.next()
  if (first.done) return { chunk: '', isEnded: true, rest: null }
  const rest = source.next()
  rest.catch(() => {}) // asked again below
  const second = await Promise.race([rest, new Promise((resolve) => setImmediate(resolve, null))])
  return { chunk: pieceOf(first.value), isEnded: second !== null && second.done === true, rest }
}

// Resolves to whether the source was used up.
async function sendStream (res, source, type) {
  const { chunk, isEnded, rest } = await takeFirst(source)
  if (!res[kAlive]()) return false
  if (isEnded) {
    finish(res, chunk, type)
    return true
  }
  begin(res, type)
  if (hasNoContent(res[kStatus]) || res[kRequest]().method === 'HEAD') {
    endStream(res) // it might never end
    return false
  }
  if (!await writeTo(res, chunk)) return false
  for (let step = await rest; !step.done; step = await source.next()) {
    if (!await writeTo(res, step.value)) return false
  }
  endStream(res)
  return true
}

async function answerStream (res, stream, type) {
  const source = sourceOf(stream)
  let isUsedUp = false
  let isCancelled = false
  const cancel = () => {
    if (isUsedUp || isCancelled) return
    isCancelled = true
    source.cancel().catch(() => {})
  }
  // The client going is told to a source that stalls, too.
  res.finished.then((isComplete) => { if (!isComplete) cancel() })
  try {
    isUsedUp = await sendStream(res, source, type)
  } catch (err) {
    if (!isCancelled) throw err // else it is about the client, who is gone
  } finally {
    cancel()
  }
}

// What fetch() gives has its content decoded, and the fields of the coded one.
function isDecoded (response) {
  return response.url !== '' && response.body !== null && response.headers.has('content-encoding')
}

async function answerResponse (res, response) {
  if (response.bodyUsed) throw fault('ERR_MILLRACE_BODY_TYPE', 'The body of the returned Response was read before.', undefined, 'Return one that nobody has read, or its clone().')
  res.status(response.status)
  const fields = fieldsOf(res)
  for (const [name, value] of response.headers) {
    if (!HOP_BY_HOP.has(name) && !(name === 'content-encoding' && isDecoded(response))) fields.append(name, value)
  }
  if (/close/i.test(response.headers.get('connection') ?? '')) fields.close = true
  const length = isDecoded(response) ? null : response.headers.get('content-length')
  // Without a body, the length can only be that of what HEAD leaves out.
  if (length !== null && (response.body !== null || res[kRequest]().method === 'HEAD')) fields.set('content-length', length)
  if (response.body === null) finish(res, null, null)
  else await answerStream(res, response.body, null)
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
    const isPlain = typeof err?.stack === 'string' && err.cause === undefined && err.code === undefined
    if (isPlain) return err.stack // with a code, or a cause, that has to be shown as well
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
  abort(res) // what was begun cannot be taken back
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
