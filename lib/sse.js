'use strict'
// Server-sent events (WHATWG HTML, 9.2) on a streamed answer: events with back-pressure, comments that
// keep proxies from closing a quiet connection.

const { kRequest, kStream } = require('./symbols')
const { fault, rangeFault, show } = require('./errors')
const { checkKeys } = require('./keys')
const { writeTo, fieldsOf } = require('./response')

const KEEP_ALIVE_MS = 15_000
const LINES = /\r\n|\r|\n/

function lineOf (name, value) {
  const text = String(value)
  if (/[\r\n\0]/.test(text)) throw fault('ERR_MILLRACE_EVENT', `${name} has a line break: ${show(text)}.`)
  return `${name}: ${text}\n`
}

function retryOf (ms) {
  if (Number.isInteger(ms) && ms >= 0) return ms
  throw fault('ERR_MILLRACE_EVENT', `retry is a whole number of ms, not ${show(ms)}.`)
}

function eventText (event) {
  if (event === null || typeof event !== 'object') return eventText({ data: event })
  checkKeys(event, ['data', 'event', 'id', 'retry', 'comment'], 'part of an event named', (text) => fault('ERR_MILLRACE_EVENT', text))
  const { data, event: type, id, retry, comment } = event
  let text = ''
  if (comment !== undefined) for (const line of String(comment).split(LINES)) text += `: ${line}\n`
  if (type !== undefined) text += lineOf('event', type)
  if (id !== undefined) text += lineOf('id', id)
  if (retry !== undefined) text += lineOf('retry', retryOf(retry))
  if (data !== undefined) {
    const body = typeof data === 'string' ? data : JSON.stringify(data) ?? ''
    for (const line of body.split(LINES)) text += `data: ${line}\n`
  }
  return `${text}\n`
}

class EventStream {
  #res
  #timer = null
  #isClosed = false
  #quiet = true // nothing was sent since the last look

  constructor (res, keepAlive) {
    this.#res = res
    this.lastEventId = res[kRequest]().header('last-event-id') ?? ''
    if (keepAlive > 0 && !this.closed) {
      this.#timer = setInterval(() => this.#keepAlive(), keepAlive)
      this.#timer.unref()
    }
    res.finished.then(() => this.#stop())
  }

  // { data, event, id, retry, comment }, or the data alone; what is not a string goes as JSON.
  // Resolves to true when the next may be sent, to false when the client has gone.
  async send (event) {
    const text = eventText(event)
    if (this.closed) return false
    this.#quiet = false
    return writeTo(this.#res, text)
  }

  close () {
    if (!this.closed) this.#res.end()
    this.#stop()
  }

  get closed () {
    return this.#isClosed || this.#res[kStream] === null || this.#res[kStream].isEnded
  }

  #keepAlive () {
    if (this.#quiet && !this.closed) this.#res.write(':\n\n')
    this.#quiet = true
  }

  #stop () {
    this.#isClosed = true
    clearInterval(this.#timer)
  }
}

function open (res, options = {}) {
  if (options === null || typeof options !== 'object') throw fault('ERR_MILLRACE_OPTION', `sse() takes an object, not ${show(options)}.`)
  checkKeys(options, ['keepAlive', 'retry'], 'option of sse() named', (text) => fault('ERR_MILLRACE_OPTION', text))
  const { keepAlive = KEEP_ALIVE_MS, retry } = options
  if (!Number.isInteger(keepAlive) || keepAlive < 0 || keepAlive > 2147483647) {
    throw rangeFault('ERR_MILLRACE_OPTION_RANGE', `keepAlive is an integer from 0 to 2147483647 (ms, 0 for none), not ${show(keepAlive)}.`)
  }
  if (fieldsOf(res).length >= 0) throw fault('ERR_MILLRACE_LENGTH', 'A stream of events has no Content-Length.', undefined, '')
  const first = retry === undefined ? ':\n\n' : eventText({ retry })
  res.header('Content-Type', 'text/event-stream').header('Cache-Control', 'no-cache')
  // The first piece opens the stream in the client.
  res.write(first)
  if (res[kRequest]().method === 'HEAD') res.end() // which waits for no events
  return new EventStream(res, keepAlive)
}

exports.open = open
