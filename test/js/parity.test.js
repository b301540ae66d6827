'use strict'
// Both engines side by side: random tables and requests have to give the same bytes. The routers are
// written twice, in C and in JavaScript, and so are the templates.

const { test } = require('node:test')
const assert = require('node:assert')
const { probe, reply, param, query, header } = require('../..')
const { start, exchange, request, timeless } = require('./_client')

const isThere = probe().binary !== null
const METHODS = ['GET', 'HEAD', 'POST', 'OPTIONS', 'DELETE']

// A small generator with a seed, so that a failure can be repeated.
function randomOf (seed) {
  let state = seed >>> 0
  return (count) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor(state / 4294967296 * count)
  }
}

function patternOf (random) {
  const segments = []
  for (let i = random(4); i >= 0; i--) segments.push(['a', 'b', '', `:p${i}`, `:q${i}`, '%41'][random(6)])
  if (random(4) === 0) segments[segments.length - 1] = '*'
  return `/${segments.join('/')}`
}

function answerOf (random, pattern, label) {
  const name = /[:*](\w*)/.exec(pattern)
  switch (random(4)) {
    case 0: return label
    case 1: return reply`${label} ${name === null ? 'none' : param(name[1] || '*')}`
    case 2: return reply.json`[${label},${query('q', 'n"one')},${header('x-h', 'none')}]`
    default: return (req) => ({ label, params: req.params, method: req.method })
  }
}

// Tables that serve() refuses are made again; what remains is a valid one.
function tableOf (random) {
  const { compile } = require('../../lib/routes')
  const routes = {}
  for (let i = 0; i < 8; i++) {
    const pattern = patternOf(random)
    const key = random(2) === 0 ? pattern : `${METHODS[random(5)]} ${pattern}`
    const wider = { ...routes, [key]: answerOf(random, pattern, `${i} ${key}`) }
    try {
      compile({ routes: wider, handler: null, error: null, limits: { outgoingBytes: 4096 } })
    } catch {
      continue
    }
    routes[key] = wider[key]
  }
  return routes
}

function targetOf (random) {
  let target = ''
  for (let i = random(4); i >= 0; i--) target += `/${['a', 'b', '', 'c', '%41', '%zz', '%c3%a9', 'a b'.replace(' ', '%20')][random(8)]}`
  return target + ['', '', '?q=%22+x', '?q', '?r=1&q=%ff'][random(5)]
}

test('random tables and requests', { skip: !isThere && 'the native engine is not built' }, async (t) => {
  for (let seed = 1; seed <= 25; seed++) {
    const random = randomOf(seed)
    const routes = tableOf(random)
    const native = await start(t, { engine: 'native', routes })
    const node = await start(t, { engine: 'node', routes })
    const asked = Array.from({ length: 60 }, () => ({ method: METHODS[random(5)], target: targetOf(random) }))
    const text = asked.map(({ method, target }) => request(method, target, random(2) === 0 ? { 'X-H': '<"\xe9>' } : {})).join('')
    const methods = asked.map(({ method }) => method)
    const [one, two] = await Promise.all([exchange(native, text, methods), exchange(node, text, methods)])
    one.forEach((response, i) => {
      assert.strictEqual(timeless(response), timeless(two[i]), `seed ${seed}: ${asked[i].method} ${asked[i].target} with ${Object.keys(routes).join(' | ')}`)
    })
    await Promise.all([native.close({ deadline: 0 }), node.close({ deadline: 0 })])
  }
})
