'use strict'
// Starts server.js and watches its memory from outside, by /proc.

const { fork } = require('node:child_process')
const { readFileSync, writeFileSync } = require('node:fs')
const { join } = require('node:path')
const { once } = require('node:events')

const SAMPLE_MS = 10
const LOOKS = 2000 // at 10 ms; only ends a wait that is in vain

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms) })

function statusOf (pid) {
  const text = readFileSync(`/proc/${pid}/status`, 'utf8')
  const bytes = (name) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)[1]) * 1024
  return { rss: bytes('VmRSS'), highWater: bytes('VmHWM') }
}

// How far the resident memory of a process rises above what it is now. The kernel keeps a high-water
// mark, which misses nothing between two samples; where it cannot be reset, samples have to do.
class Rise {
  #pid
  #from
  #peak
  #isReset
  #timer

  constructor (pid) {
    this.#pid = pid
    try {
      writeFileSync(`/proc/${pid}/clear_refs`, '5')
      this.#isReset = true
    } catch {
      this.#isReset = false
    }
    this.#from = this.#peak = statusOf(pid).rss
    this.#timer = setInterval(() => this.#sample(), SAMPLE_MS)
  }

  #sample () {
    const { rss, highWater } = statusOf(this.#pid)
    this.#peak = Math.max(this.#peak, this.#isReset ? highWater : rss)
  }

  // Gives the rise of the peak, and that of what is in use now.
  end () {
    this.#sample()
    clearInterval(this.#timer)
    return { peak: this.#peak - this.#from, now: statusOf(this.#pid).rss - this.#from }
  }

  // Without a sample: the process may be gone.
  stop () {
    clearInterval(this.#timer)
  }
}

class Child {
  #process
  #err = ''

  constructor (options, { transport, flags = [] }) {
    const env = { ...process.env, MILLRACE_ENGINE: 'native' }
    if (transport !== undefined) env.MILLRACE_TRANSPORT = transport
    this.#process = fork(join(__dirname, 'server.js'), [JSON.stringify(options)], {
      env, execArgv: ['--expose-gc', ...flags], stdio: ['ignore', 'inherit', 'pipe', 'ipc']
    })
    this.#process.stderr.setEncoding('utf8').on('data', (text) => { this.#err += text })
    this.closed = once(this.#process, 'close')
  }

  get pid () {
    return this.#process.pid
  }

  // Rejects when the process ends first.
  async #message () {
    const ended = this.closed.then(([code, signal]) => { throw new Error(`the server ended with ${signal ?? code}: ${this.#err}`) })
    const [message] = await Promise.race([once(this.#process, 'message'), ended])
    return message
  }

  async listening () {
    this.port = (await this.#message()).port
    return this
  }

  // The counts of the server, after a collection.
  look () {
    this.#process.send('look')
    return this.#message()
  }

  leak () {
    this.#process.send('leak')
    return this.#message()
  }

  // The counts once no connection is left, or those that are there at the end of patience.
  async quiet () {
    let counts = await this.look()
    for (let i = 0; counts.connections > 0 && i < LOOKS; i++) {
      await pause(10)
      counts = await this.look()
    }
    return counts
  }

  async close () {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return this.#err
    this.#process.send('close')
    const [code, signal] = await this.closed
    return code === 0 ? this.#err : `it ended with ${signal ?? code}\n${this.#err}`
  }

  kill () {
    this.#process.kill('SIGKILL')
  }
}

// Runs `use(child)` with a server in the given manner, { transport, flags } of Node; whatever happens, the server is gone afterwards.
async function withChild (options, manner, use) {
  const child = new Child(options, manner)
  try {
    await child.listening()
    const result = await use(child)
    const err = await child.close()
    if (err !== '') throw new Error(`the server said: ${err}`)
    return result
  } finally {
    child.kill()
  }
}

module.exports = { withChild, Rise, pause }
