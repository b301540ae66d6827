'use strict'

// context.js -- keeps the async context of one request away from the next of its batch.
//
// The core calls JavaScript once per loop turn, so several handlers run inside one native
// callback scope. What a handler does to the current context (AsyncLocalStorage.enterWith,
// properties put on executionAsyncResource()) would stay for the handlers after it.
// isolation.call(fn, a, b, c) runs fn(a, b, c) in the context that was current when the
// isolation was created, i.e. in serve(), and undoes whatever fn did to it. What fn started
// (promises, ticks, timers) has taken its own copy by then and keeps it.
//
// Call it for the whole step of a request: handler, error hook and the `.then` of a returned
// promise, so that those three see what the handler entered. The native call's own resource
// does not matter: no user code runs in it directly.
//
// Node keeps contexts in one of three ways; a trial at load tells which, not the version:
//   frame     one immutable map, swapped (24 and later; 22 and 23 with the experimental flag).
//             AsyncResource.runInAsyncScope puts the old one back.
//   resource  properties of the current resource (20, 22, 23). One resource serves all
//             requests; a Proxy as its prototype sees each property that is new to it, once,
//             and the known ones are compared after each request.
//   fresh     anything else (24 and later told to do without frames): a resource per request.
//
// Price of call() over a plain call in ns: batches of 20,000 requests to 8 different handlers in
// outermost napi_make_callbacks; per run the median of 40 batches, of 5 interleaved runs the
// calmest; 2-core x86-64 VM, others at work on it, so +-5. "used": each handler calls
// enterWith and getStore, whose own price (8 ns, with frames 100) is in both terms.
//
//   Node                     20   22   23   24   25   26   22 with frames   24 without
//   no store in use           6   18   15    8   10   10         14             117
//   used                     31   31   27   13    8    6         14             131
//
// Where the compiler inlines nothing, the first row is 40 throughout.
// Dismissed, same method, ns: AsyncLocalStorage.snapshot() 90-120; run() of a store of our own
// 10 on 20 to 23 but 200-300 on 24 and later (two copies of the map), and nowhere does it undo
// what another store entered; a resource per request 40-50, with stores in use on 20 to 23 80.

const { AsyncLocalStorage, AsyncResource } = require('node:async_hooks')

// Taken once: a lookup through the Proxy below would cost more than the call.
const { runInAsyncScope } = AsyncResource.prototype

// The resource is the server's and lives as long; nothing waits for its collection.
const LASTING = { requireManualDestroy: true }

// A program that makes a store per request would otherwise make the list grow for ever.
const MAX_KEYS = 64

/** How this process keeps contexts: 'frame', 'resource' or 'fresh'. Leaves no hook enabled. */
function detectStrategy () {
  const storage = new AsyncLocalStorage()
  const resource = new AsyncResource('MILLRACE_PROBE', LASTING)
  const mark = {}
  try {
    resource.runInAsyncScope(() => storage.enterWith(mark))
    if (resource.runInAsyncScope(() => storage.getStore()) !== mark) return 'frame'
    return Reflect.ownKeys(resource).some((key) => resource[key] === mark) ? 'resource' : 'fresh'
  } finally {
    storage.disable()
    resource.emitDestroy()
  }
}

class FrameIsolation {
  #base = new AsyncResource('MILLRACE_SERVER', LASTING)

  call (fn, a, b, c) {
    return this.#base.runInAsyncScope(fn, undefined, a, b, c)
  }

  dispose () {
    this.#base.emitDestroy()
  }
}

class FreshIsolation {
  #base = new AsyncResource('MILLRACE_SERVER', LASTING)

  call (fn, a, b, c) {
    return this.#base.runInAsyncScope(callFresh, undefined, fn, a, b, c)
  }

  dispose () {
    this.#base.emitDestroy()
  }
}

function callFresh (fn, a, b, c) {
  return new AsyncResource('MILLRACE_REQUEST').runInAsyncScope(fn, undefined, a, b, c)
}

class ResourceIsolation {
  // keys[i] had the value values[i] in serve(); those from #inherited on were undefined there.
  #keys = []
  #values = []
  #inherited = 0
  #base

  constructor () {
    function Watched () {}
    Watched.prototype = this.#watcher()
    this.#base = Reflect.construct(AsyncResource, ['MILLRACE_SERVER', LASTING], Watched)
    this.#inherit()
  }

  call (fn, a, b, c) {
    try {
      return runInAsyncScope.call(this.#base, fn, undefined, a, b, c)
    } finally {
      if (this.#keys.length !== 0) this.#restore()
    }
  }

  dispose () {
    AsyncResource.prototype.emitDestroy.call(this.#base)
  }

  // Reached only for properties that the resource does not own yet. Reading makes a symbol its
  // own as well: getStore() of a store that was never entered here would come by every time.
  #watcher () {
    return new Proxy(AsyncResource.prototype, {
      set: (target, key, value, receiver) => {
        const done = Reflect.set(target, key, value, receiver)
        if (done && receiver === this.#base) this.#watch(key)
        return done
      },
      get: (target, key, receiver) => {
        if (typeof key === 'symbol' && receiver === this.#base && !(key in target)) {
          Reflect.set(target, key, undefined, receiver)
          this.#watch(key)
        }
        return Reflect.get(target, key, receiver)
      }
    })
  }

  #watch (key) {
    if (!Object.hasOwn(this.#base, key)) return // a setter of Object.prototype took it
    this.#keys.push(key)
    this.#values.push(undefined)
  }

  // Node sets its own keys, the two ids last, before the hooks that hand down the stores run.
  // Leaving those out saves a look at each of them per request; where not found, all are kept.
  #inherit () {
    const keys = Reflect.ownKeys(this.#base)
    const id = keys.findIndex((key) => this.#base[key] === this.#base.asyncId())
    const first = this.#base[keys[id + 1]] === this.#base.triggerAsyncId() ? id + 2 : 0
    this.#keys = keys.slice(first)
    this.#values = this.#keys.map((key) => this.#base[key])
    this.#inherited = this.#keys.length
  }

  #restore () {
    const base = this.#base
    const keys = this.#keys
    const values = this.#values
    for (let i = 0; i < keys.length; i++) {
      if (base[keys[i]] !== values[i]) base[keys[i]] = values[i]
    }
    if (keys.length > this.#inherited + MAX_KEYS) this.#prune()
  }

  #prune () {
    const gone = this.#keys.splice(this.#inherited)
    this.#values.length = this.#inherited
    for (const key of gone) delete this.#base[key]
  }
}

const strategies = { frame: FrameIsolation, resource: ResourceIsolation, fresh: FreshIsolation }
const strategy = detectStrategy()

/**
 * Takes the current async context as that of every later call(fn, a, b, c). One per server.
 * dispose() tells async_hooks that the resource is gone; call() may follow it still.
 * `kind` is for tests: 'fresh' is right everywhere, the others only where detected.
 */
function createIsolation (kind = strategy) {
  return new strategies[kind]()
}

exports.createIsolation = createIsolation
exports.strategy = strategy
