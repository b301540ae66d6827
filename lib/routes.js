'use strict'
// The route table as a program writes it, checked and made flat:
//   entry { pattern, params, methods, kind: 'fixed' | 'template' | 'handler', descriptor, fn, bodyBytes }
//     params     names in the order of the pattern; '*' is the wildcard's
//     methods    names, or null for any
//     bodyBytes  the limit on a request's body; 0: the server's
//   app   { entries, handler, error, router } -- what requests are answered by; a reload makes a new
//         one, and requests finish by the one they started with.

const { kReply } = require('./symbols')
const { fault, rangeFault, show } = require('./errors')
const { fixedText, isBareTag, Template } = require('./reply')
const { METHODS } = require('./methods')
const { Router, shapeOf } = require('./router')
const { hint, checkKeys } = require('./keys')

const PATTERN_MAX = 2048 // src/engine/route.h
const SEGMENTS_MAX = 64
const PARAMS_MAX = 16
const READS = Object.freeze(['GET']) // and HEAD, which falls back to GET
const KEY = /^(?:([A-Za-z-]+)[ \t]+)?(.*)$/s
const LITERAL = /^[\x21-\x7e]*$/
const BRACED = /^\{([A-Za-z_]\w*)\}$/ // how others write a param
const NAME = /^[A-Za-z_]\w*$/
const CONCURRENCY_MAX = 1000000
const BODY_MAX = 2147483647

function refuse (key, why) {
  return fault('ERR_MILLRACE_ROUTE', `Route '${key}': ${why}`, undefined, '')
}

// ---- patterns ----

function checkLiteral (key, segment) {
  if (!LITERAL.test(segment)) throw refuse(key, `'${segment}' has characters that no path has; percent-encode them.`)
  if (/[?#]/.test(segment)) throw refuse(key, `a pattern has no '?' or '#'.`)
  const braced = BRACED.exec(segment)
  if (braced !== null) throw refuse(key, `'${segment}' would be taken as it stands. Did you mean :${braced[1]}?`)
  if (segment.includes('*')) throw refuse(key, `'*' is only possible as the whole last segment.`)
}

function checkParam (key, name, params) {
  if (!NAME.test(name)) throw refuse(key, `':${name}' is not a param: letters, digits and '_' make its name, up to the next '/'.`)
  if (params.includes(name)) throw refuse(key, `two params have the name ${name}.`)
}

// The names of a pattern's params.
function paramsOf (key, pattern) {
  if (!pattern.startsWith('/')) throw refuse(key, 'a pattern starts with \'/\'.')
  if (pattern.length > PATTERN_MAX) throw refuse(key, `a pattern has at most ${PATTERN_MAX} characters.`)
  const segments = pattern.slice(1).split('/')
  const params = []
  segments.forEach((segment, i) => {
    if (segment === '*' && i === segments.length - 1) {
      params.push('*')
    } else if (segment.startsWith(':')) {
      checkParam(key, segment.slice(1), params)
      params.push(segment.slice(1))
    } else {
      checkLiteral(key, segment)
    }
  })
  if (segments.length > SEGMENTS_MAX) throw refuse(key, `a pattern has at most ${SEGMENTS_MAX} segments.`)
  if (params.length > PARAMS_MAX) throw refuse(key, `a pattern has at most ${PARAMS_MAX} params.`)
  return params
}

// ---- values ----

function checkMethod (key, method) {
  if (!METHODS.includes(method)) throw refuse(key, `there is no method ${method} for routes.${hint(method, METHODS)}`)
}

function checkPlaceholders (key, descriptor, params) {
  for (const { param } of descriptor.parts ?? []) {
    if (param !== undefined && !params.includes(param)) throw refuse(key, `its reply names the param ${param}, which the pattern does not have.`)
  }
}

// An engine's constants cannot say `Connection: close`; such a reply is sent by a handler instead.
function closingHandler (route) {
  return (req, res) => { res.reply(route) }
}

function entryOf (key, route, methods, value) {
  const { pattern, params, bodyBytes, concurrency } = route
  if (typeof value === 'string') {
    return { pattern, params, methods: methods ?? READS, kind: 'fixed', descriptor: fixedText(value), fn: null, bodyBytes }
  }
  const descriptor = value?.[kReply]
  if (descriptor !== undefined) {
    checkPlaceholders(key, descriptor, params)
    if (descriptor.close) return { pattern, params, methods: methods ?? READS, kind: 'handler', descriptor: null, fn: closingHandler(value), bodyBytes, concurrency: null }
    return { pattern, params, methods: methods ?? READS, kind: descriptor.kind, descriptor, fn: null, bodyBytes }
  }
  if (isBareTag(value)) throw refuse(key, 'reply and reply.text, .html and .json are tags, not answers: write reply`…`, or reply({ … }).')
  if (typeof value === 'function') return { pattern, params, methods, kind: 'handler', descriptor: null, fn: value, bodyBytes, concurrency }
  if (value instanceof Template) throw refuse(key, 'a template needs a body: use reply({ … }), or res.reply(template, body) in a function.')
  throw fault('ERR_MILLRACE_ROUTE', `Route '${key}': ${show(value)} cannot be a route.`)
}

function isTable (value) {
  if (value === null || typeof value !== 'object' || value[kReply] !== undefined) return false
  const proto = Object.getPrototypeOf(value)
  return proto === Object.prototype || proto === null
}

// { most, queue } of a table's `limits`, or null: any number.
function concurrencyOf (key, { concurrency, queue = 0 }) {
  if (concurrency === undefined) return null
  for (const [name, value, least] of [['concurrency', concurrency, 1], ['queue', queue, 0]]) {
    if (Number.isInteger(value) && value >= least && value <= CONCURRENCY_MAX) continue
    throw rangeFault('ERR_MILLRACE_OPTION_RANGE', `limits.${name} of route '${key}' is an integer from ${least} to ${CONCURRENCY_MAX} (requests), not ${show(value)}.`)
  }
  return { most: concurrency, queue }
}

// The limit of a table's `limits`; 0: the server's.
function bodyBytesOf (key, limits) {
  if (limits === undefined) return 0
  if (limits === null || typeof limits !== 'object') throw refuse(key, `its limits are an object, not ${show(limits)}.`)
  checkKeys(limits, ['bodyBytes', 'concurrency', 'queue'], 'limit of a route named', (text) => refuse(key, text))
  const { bodyBytes } = limits
  if (bodyBytes === undefined) return 0
  if (Number.isInteger(bodyBytes) && bodyBytes >= 1 && bodyBytes <= BODY_MAX) return bodyBytes
  throw rangeFault('ERR_MILLRACE_OPTION_RANGE', `limits.bodyBytes of route '${key}' is an integer from 1 to ${BODY_MAX} (bytes), not ${show(bodyBytes)}.`)
}

function entriesOf (key, value) {
  const [, method, pattern] = KEY.exec(key)
  const route = { pattern, params: paramsOf(key, pattern), bodyBytes: 0, concurrency: null }
  const own = method === undefined ? null : [method]
  if (method !== undefined) checkMethod(key, method)
  if (!isTable(value)) return [entryOf(key, route, own, value)]
  const { limits, ...answers } = value
  const methods = Object.keys(answers)
  route.bodyBytes = bodyBytesOf(key, limits)
  route.concurrency = concurrencyOf(key, limits ?? {})
  if (methods.length === 0) throw refuse(key, 'its table of methods is empty.')
  if (Object.hasOwn(answers, 'handler')) {
    if (methods.length > 1) throw refuse(key, 'its table has either a handler, for every method, or methods.')
    return [entryOf(key, route, own, answers.handler)]
  }
  if (own !== null) throw refuse(key, 'give methods either in the key or in a table.')
  return methods.map((name) => {
    checkMethod(key, name)
    return entryOf(key, route, [name], answers[name])
  })
}

function checkDuplicate (key, entry, taken) {
  const shape = shapeOf(entry.pattern)
  const there = taken.get(shape) ?? []
  const clash = there.find((other) => other.methods === null || entry.methods === null || other.methods.some((name) => entry.methods.includes(name)))
  if (clash !== undefined) {
    throw refuse(key, `'${clash.pattern}' already answers ${clash.methods === null || entry.methods === null ? 'some of its methods' : clash.methods.join(', ')}.`)
  }
  taken.set(shape, [...there, entry])
}

// Answered by the core (src/engine/gate.c); { '/healthz': 'health', ... }.
function addLive (entries, taken, live) {
  for (const [pattern, what] of Object.entries(live)) {
    const entry = { pattern, params: paramsOf(pattern, pattern), methods: ['GET'], kind: 'live', descriptor: null, what, bodyBytes: 0 }
    checkDuplicate(pattern, entry, taken)
    entries.push(Object.freeze(entry))
  }
}

function compileRoutes (routes, live) {
  const entries = []
  const taken = new Map()
  addLive(entries, taken, live)
  for (const key of Object.keys(routes)) {
    for (const entry of entriesOf(key, routes[key])) {
      checkDuplicate(key, entry, taken)
      entries.push(Object.freeze(entry))
    }
  }
  return entries
}

class App {
  #router

  constructor (entries, handler, error) {
    this.entries = entries
    this.handler = handler // function | null
    this.error = error // function | null
  }

  // The same with other entries.
  with (entries) {
    return new App(entries, this.handler, this.error)
  }

  get router () {
    return this.#router ?? (this.#router = new Router(this.entries))
  }
}

// Compiles what normalise() of options.js returned.
function compile ({ routes, handler, error, live }) {
  return new App(compileRoutes(routes, live), handler, error)
}

exports.compile = compile
