'use strict'
// The supervisor: starts a program in N threads, keeps N of them running, and ends them together.
// The states of a thread here follow those of its seat (src/engine/fleet.h).

const { EventEmitter } = require('node:events')
const { Worker, isMainThread, setEnvironmentData } = require('node:worker_threads')
const path = require('node:path')
const { fault, show } = require('./errors')
const { normalise, normaliseFleet, deadlineOf, graceOf } = require('./options')
const { compile } = require('./routes')
const { createServer } = require('./native')
const { checkKeys } = require('./keys')
const { Office } = require('./mail')
const { DATA, crew } = require('./crew')
const { useOffice } = require('./bus')
const { settleMetrics, unsettleMetrics } = require('./metrics')

const BALANCES = { reuseport: 0, rotate: 1, least: 2, select: 3 }
const PING_MS = 100
const ACCEPT = { refuse: -1, next: -2 }
const BACKOFF_MIN_MS = 100
const BACKOFF_MAX_MS = 5000
const STEADY_MS = 10000 // a thread that ran so long is no repeated failure
const SIGNALS = ['SIGTERM', 'SIGINT']
const TIMER_MAX_MS = 2147483647
const EXIT_MS = 1000 // beyond the deadline, for a thread to end by itself before it is terminated

// One thread that was started for a place; a replaced one and its successor are two of them.
class Thread {
  constructor (place, seat) {
    this.place = place
    this.seat = seat
    this.worker = null
    this.isUp = false
    this.isEnding = false // it was told to
    this.isFirst = false // start() waits until it is up, and fails with it
    this.error = null
    this.startedAt = performance.now()
    this.up = new Promise((resolve, reject) => { this.resolveUp = resolve; this.rejectUp = reject })
    this.up.catch(() => {}) // awaited where it matters
    this.ended = new Promise((resolve) => { this.resolveEnded = resolve })
  }
}

class Fleet extends EventEmitter {
  #binding
  #entry
  #options
  #handle
  #office
  #places // the Thread of each place, or null while one is awaited
  #all = new Set() // Threads that have not ended
  #failures
  #timers = new Set()
  #closed = null
  #reloading = null
  #deadlineTimer = null
  #onHangUp = () => this.reopenAccessLog()
  #isFailed = false
  #isOver = false
  #finish

  constructor (binding, entry, options) {
    super()
    const { threads, balance } = options
    this.#binding = binding
    this.#entry = entry
    this.#options = options
    this.#office = new Office(binding)
    this.#office.onControl = (message) => this.#hear(message)
    const asks = options.select !== null || options.admit !== null
    this.#handle = binding.fleetCreate(threads, BALANCES[balance.mode], options.stuckAfter, PING_MS, this.#office.onMail,
      asks ? (peers) => this.#place(peers) : null, options.keepCpu)
    this.#office.open(this.#handle)
    settleMetrics(binding, this.#handle)
    this.#places = Array(threads).fill(null)
    this.#failures = Array(threads).fill(0)
    this.engine = 'native'
    this.threads = threads
    this.balance = Object.freeze(balance)
    // Resolves when the fleet has ended as asked, rejects with the reason when it failed.
    this.done = new Promise((resolve, reject) => { this.#finish = { resolve, reject } })
    this.done.catch(() => {}) // somebody may look at it later; an 'error' event is not missed
    useOffice(this.#office, () => threads)
  }

  get deadline () {
    return this.#options.deadline
  }

  // ---- starting ----

  async start () {
    try {
      const first = this.#places.map((_, place) => {
        const thread = this.#startThread(place)
        thread.isFirst = true
        return thread
      })
      await this.#within(this.#options.launchTimeout, Promise.all(first.map((thread) => thread.up)))
    } catch (err) {
      this.#isFailed = true
      await this.#end(0, 0)
      throw err
    }
    if (this.#options.admin !== null) await this.#serveAdmin(this.#options.admin)
    if (this.#options.signals) this.#listenToSignals()
    return this
  }

  // Metrics and health on a port of the supervisor's own, whatever becomes of the threads.
  async #serveAdmin (admin) {
    const options = normalise(admin)
    try {
      this.admin = await createServer(options, compile(options), this.#binding, this.#handle)
    } catch (err) {
      this.#isFailed = true
      await this.#end(0, 0)
      throw err
    }
  }

  async #within (ms, promise) {
    let timer
    const late = new Promise((resolve, reject) => {
      timer = setTimeout(() => reject(fault('ERR_MILLRACE_LAUNCH',
        `Not every thread has begun to listen within ${ms} ms.`)), ms)
    })
    try {
      return await Promise.race([promise, late])
    } finally {
      clearTimeout(timer)
    }
  }

  #startThread (place) {
    const seat = this.#binding.fleetTakeSeat(this.#handle, place)
    if (seat < 0) throw fault('ERR_MILLRACE_LAUNCH', `Thread ${place} is being replaced already.`)
    const thread = new Thread(place, seat)
    this.#all.add(thread)
    const name = `mr-${place}`
    const { argv, env, execArgv, workerData, resourceLimits, pin, overrides } = this.#options
    setEnvironmentData(DATA, {
      fleet: this.#binding.fleetNumber(this.#handle),
      seat,
      thread: place,
      threads: this.threads,
      name,
      cpu: pin ? place : undefined,
      overrides
    })
    try {
      thread.worker = new Worker(this.#entry, { name, argv, env, execArgv, workerData, resourceLimits })
    } catch (err) {
      this.#all.delete(thread)
      this.#binding.fleetReap(this.#handle, seat)
      throw err
    } finally {
      setEnvironmentData(DATA, undefined)
    }
    thread.worker.once('error', (err) => { thread.error = err })
    thread.worker.once('exit', (code) => this.#onExit(thread, code))
    if (this.#places[place] === null) this.#places[place] = thread
    return thread
  }

  // ---- what threads say, and what becomes of them ----

  #hear (message) {
    if (message.type !== 'up') return
    for (const thread of this.#all) {
      if (thread.seat !== message.seat) continue
      thread.isUp = true
      this.addresses ??= Object.freeze(message.addresses)
      Object.assign(this, message.addresses[0]) // url, host, port, path
      thread.resolveUp()
      this.emit('up', thread.place)
    }
  }

  #onExit (thread, code) {
    this.#all.delete(thread)
    this.#binding.fleetReap(this.#handle, thread.seat)
    for (const { seat } of this.#all) this.#office.control(-1 - seat, { type: 'gone', seat: thread.seat })
    this.#office.seatGone(thread.seat)
    const { place } = thread
    const reason = thread.error ?? fault('ERR_MILLRACE_THREAD_EXITED',
      `Thread ${place} ended${code === 0 ? '' : ` with code ${code}`}${thread.isUp ? '' : ' before it listened'}.`)
    thread.rejectUp(reason)
    thread.resolveEnded()
    if (this.#places[place] === thread) this.#places[place] = null
    this.emit('down', place, thread.isEnding ? null : reason)
    // One that was to take another's place is the reload's affair.
    if (!thread.isEnding && this.#places[place] === null) this.#replace(thread, reason)
  }

  #replace ({ place, startedAt, isUp, isFirst }, reason) {
    if (this.#closed !== null || this.#isFailed) return
    if (isFirst && !isUp) return // start() has it
    if (isUp && performance.now() - startedAt >= STEADY_MS) this.#failures[place] = 0
    const failures = ++this.#failures[place]
    if (failures > this.#options.restarts) {
      this.#fail(fault('ERR_MILLRACE_THREAD_FAILED', `Thread ${place} has failed ${failures} times in a row, the last time with: ${reason?.message ?? show(reason)}.`, reason))
      return
    }
    console.error(`millrace: thread ${place} ended and is replaced:`, reason)
    const wait = Math.min(BACKOFF_MAX_MS, BACKOFF_MIN_MS * 2 ** (failures - 1))
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      if (this.#closed === null && this.#places[place] === null) this.#startThread(place)
    }, failures === 1 ? 0 : wait)
    this.#timers.add(timer)
  }

  #fail (err) {
    this.#isFailed = true
    this.#closed = this.#end(this.#options.deadline, 0).then(() => { this.#finish.reject(err) })
    if (this.listenerCount('error') > 0) this.emit('error', err)
    else this.#closed.then(() => { throw err }) // an unhandled rejection: the process says why it ends
  }

  // ---- whose a new connection is ----

  // peers: [fd, ip, port, ...]; a number for each.
  #place (peers) {
    const answers = []
    for (let i = 0; i < peers.length; i += 3) answers.push(this.#placeOne({ ip: peers[i + 1], port: peers[i + 2] }))
    return answers
  }

  #placeOne (peer) {
    const { admit, select } = this.#options
    try {
      if (admit !== null && admit(peer) === false) return ACCEPT.refuse
      const thread = select === null ? undefined : select(peer)
      return Number.isInteger(thread) && thread >= 0 && thread < this.threads ? thread : ACCEPT.next
    } catch (err) {
      console.error('millrace: admit or select failed, the connection is refused:', err)
      return ACCEPT.refuse
    }
  }

  // ---- what it shows ----

  // Text for Prometheus.
  metrics () {
    this.#checkOpen()
    return this.#binding.fleetMetrics(this.#handle)
  }

  // { status, threads: [{ thread, state, heartbeatAge, lag, utilisation, mailboxDepth, connections }] }
  health () {
    this.#checkOpen()
    return JSON.parse(this.#binding.fleetHealth(this.#handle))
  }

  reopenAccessLog () {
    this.#checkOpen()
    this.#binding.fleetReopenLog(this.#handle)
  }

  #checkOpen () {
    if (this.#isOver) throw fault('ERR_MILLRACE_CLOSED', 'This fleet is closed.')
  }

  // ---- reload ----

  // Replaces all threads, one after the other; connections go on in the new ones. One at a time.
  async reload (options = {}) {
    checkKeys(options, ['deadline'], 'option for reload() of a fleet, which runs the program anew, named', (detail) => fault('ERR_MILLRACE_OPTION', detail))
    const deadline = deadlineOf({ deadline: options.deadline ?? this.#options.deadline })
    if (this.#closed !== null) throw fault('ERR_MILLRACE_CLOSED', 'This fleet is closed.')
    const before = this.#reloading ?? Promise.resolve()
    const run = before.catch(() => {}).then(() => this.#reloadAll(deadline))
    this.#reloading = run
    return run
  }

  async #reloadAll (deadline) {
    for (let place = 0; place < this.threads && this.#closed === null; place++) await this.#reloadOne(place, deadline)
    if (this.#closed === null) this.#binding.fleetSweep(this.#handle)
  }

  async #reloadOne (place, deadline) {
    if (this.#places[place] === null) return // it is being replaced anyway
    const next = this.#startThread(place)
    next.isEnding = true // until it is up, its end is this function's affair
    await this.#within(this.#options.launchTimeout, next.up).catch(async (err) => {
      await next.worker.terminate()
      throw err
    })
    next.isEnding = false
    const last = this.#places[place] // the old one may have ended meanwhile
    this.#places[place] = next
    if (last === null) return
    last.isEnding = true
    this.#office.control(-1 - last.seat, { type: 'retire', heir: next.seat, deadline })
    await this.#untilEnded(last, deadline)
  }

  async #untilEnded (thread, deadline) {
    const timer = setTimeout(() => thread.worker.terminate(), Math.min(TIMER_MAX_MS, deadline + EXIT_MS))
    await thread.ended
    clearTimeout(timer)
  }

  // ---- closing ----

  // Again: the same promise; an earlier deadline counts.
  async close (options) {
    const deadline = deadlineOf(options)
    if (this.#closed === null) this.#closed = this.#end(deadline, Math.min(graceOf(options), deadline)).then(() => this.#finish.resolve())
    else if (options?.deadline !== undefined) this.#forceIn(deadline)
    return this.#closed
  }

  #forceIn (deadline) {
    clearTimeout(this.#deadlineTimer)
    this.#deadlineTimer = setTimeout(() => {
      for (const { worker } of this.#all) worker.terminate()
    }, deadline)
  }

  async #end (deadline, grace) {
    for (const timer of this.#timers) clearTimeout(timer)
    // Before the threads empty theirs: the last descriptor of a socket ends its queue.
    this.#binding.fleetCloseListeners(this.#handle)
    const threads = [...this.#all]
    for (const thread of threads) {
      thread.isEnding = true
      if (!thread.isUp || deadline === 0) thread.worker.terminate()
      else this.#office.control(-1 - thread.seat, { type: 'close', deadline, grace })
    }
    this.#forceIn(deadline === 0 ? 0 : Math.min(TIMER_MAX_MS, deadline + EXIT_MS))
    await Promise.all(threads.map(({ ended }) => ended))
    clearTimeout(this.#deadlineTimer)
    await this.admin?.close({ deadline: 0 })
    this.#unlistenToSignals()
    this.#isOver = true
    unsettleMetrics(this.#handle)
    this.#office.close()
    this.#binding.fleetEnd(this.#handle)
  }

  // ---- signals ----

  #listenToSignals () {
    if (signalled.size === 0) for (const name of SIGNALS) process.on(name, onSignal)
    signalled.add(this)
    process.on('SIGHUP', this.#onHangUp)
  }

  #unlistenToSignals () {
    process.off('SIGHUP', this.#onHangUp)
    if (!signalled.delete(this) || signalled.size > 0 || isEnding) return
    for (const name of SIGNALS) process.off(name, onSignal)
  }
}

// The fleets of this process that end with a signal: all of them, before the process does. A second
// signal is heard until then.
const signalled = new Set()
let isEnding = false

async function onSignal () {
  if (isEnding) process.exit(1)
  isEnding = true
  const ends = await Promise.allSettled([...signalled].map((fleet) => fleet.close({ deadline: fleet.deadline })))
  process.exit(ends.every(({ status }) => status === 'fulfilled') ? 0 : 1)
}

// ---- launching ----

function entryOf (entry) {
  if (entry instanceof URL) return entry
  if (typeof entry !== 'string' || entry === '') throw fault('ERR_MILLRACE_OPTION', `launch() takes the path or URL of a program, not ${show(entry)}.`)
  return entry.startsWith('file:') ? new URL(entry) : path.resolve(entry)
}

function ownEntry () {
  const entry = process.argv[1]
  if (entry === undefined) {
    throw fault('ERR_MILLRACE_OPTION', 'serve({ threads }) runs the program again in each thread, and there is no file to run; put it into a file, or use launch().')
  }
  try {
    return require.resolve(path.resolve(entry)) // `node app` means app.js
  } catch {
    return path.resolve(entry)
  }
}

function checkPlace (what) {
  if (crew !== null) throw fault('ERR_MILLRACE_OPTION', `${what} is called in a thread that a fleet has started.`)
  if (!isMainThread) throw fault('ERR_MILLRACE_OPTION', `${what} is for the main thread.`)
}

function checkCopies (binding) {
  const copies = binding.copies()
  if (copies > 1) throw fault('ERR_MILLRACE_COPIES', `The process has loaded ${copies} copies of the addon.`)
}

async function launchWith (binding, entry, options) {
  checkCopies(binding)
  return new Fleet(binding, entry, options).start()
}

exports.normaliseFleet = normaliseFleet
exports.launchWith = launchWith
exports.entryOf = entryOf
exports.ownEntry = ownEntry
exports.checkPlace = checkPlace
