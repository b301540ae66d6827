'use strict'
// Which route answers a method and a path: the rules of src/engine/route.h, for node:http. Static
// before param before wildcard; a candidate that lacks the method gives way to a less specific one
// that has it; paths are compared as they came, percent-encoding included.

const { METHODS } = require('./methods')

class Node {
  constructor () {
    this.statics = new Map()
    this.param = null
    this.end = [] // routes of a path that ends here
    this.rest = [] // routes of a wildcard that starts here
  }
}

// A pattern with the names taken out: two of the same shape match the same paths.
function shapeOf (pattern) {
  return pattern.replace(/\/:[^/]*/g, '/:')
}

function nodeFor (root, segments) {
  let node = root
  for (const segment of segments) {
    if (segment.startsWith(':')) node = node.param ?? (node.param = new Node())
    else {
      if (!node.statics.has(segment)) node.statics.set(segment, new Node())
      node = node.statics.get(segment)
    }
  }
  return node
}

function entryFor (entries, method) {
  const has = (name) => entries.find((entry) => entry.methods === null || entry.methods.includes(name))
  return has(method) ?? (method === 'HEAD' ? has('GET') : undefined)
}

function isDecodable (raw) {
  try {
    decodeURIComponent(raw)
    return true
  } catch {
    return false
  }
}

function allowOf (methods) {
  if (methods.has('GET')) methods.add('HEAD')
  methods.add('OPTIONS')
  return METHODS.filter((method) => methods.has(method)).join(', ')
}

class Router {
  #root = new Node()

  constructor (entries) {
    for (const entry of entries) {
      const segments = entry.pattern.slice(1).split('/')
      const isWild = segments.at(-1) === '*'
      const node = nodeFor(this.#root, isWild ? segments.slice(0, -1) : segments)
      ;(isWild ? node.rest : node.end).push(entry)
    }
  }

  // { kind: 'action', entry, raw } | { kind: 'none' } | { kind: 'methods' | 'options', allow } |
  // { kind: 'bad' }; raw are the params' values, undecoded.
  match (method, path) {
    if (!path.startsWith('/')) return { kind: 'none' }
    const methods = new Set()
    const walk = { method, segments: path.slice(1).split('/'), raw: [], methods }
    const entry = this.#try(walk, this.#root, 0)
    if (entry !== undefined) return walk.raw.every(isDecodable) ? { kind: 'action', entry, raw: walk.raw } : { kind: 'bad' }
    if (methods.size === 0) return { kind: 'none' }
    return { kind: method === 'OPTIONS' ? 'options' : 'methods', allow: allowOf(methods) }
  }

  #try (walk, node, depth) {
    const { segments, raw } = walk
    const segment = segments[depth]
    const literal = node.statics.get(segment)
    const found = literal && this.#step(walk, literal, depth)
    if (found !== undefined) return found
    if (node.param !== null && segment !== '') {
      raw.push(segment)
      const taken = this.#step(walk, node.param, depth)
      if (taken !== undefined) return taken
      raw.pop()
    }
    const wild = this.#accept(walk, node.rest)
    if (wild !== undefined) raw.push(segments.slice(depth).join('/'))
    return wild
  }

  #step (walk, child, depth) {
    return depth === walk.segments.length - 1 ? this.#accept(walk, child.end) : this.#try(walk, child, depth + 1)
  }

  #accept (walk, entries) {
    const entry = entryFor(entries, walk.method)
    if (entry !== undefined) return entry
    for (const { methods } of entries) methods.forEach((name) => walk.methods.add(name))
    return undefined
  }
}

exports.Router = Router
exports.shapeOf = shapeOf
