// The servers under test as child processes: how each one is started, and how it is ended.

import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const START_MS = 20_000
const STOP_MS = 5_000

const script = (name) => fileURLToPath(new URL(`../servers/${name}`, import.meta.url))

/** A scenario that cannot run here; its message is the reason that the report gives. */
export class NotAvailable extends Error {}

// One Node runs all that run on Node, or the ratios between them would be Node's and not theirs.
const node = (env) => env.peers ? join(env.peers, 'node24') : process.execPath

function needPeers (env, file) {
  if (!env.peers) throw new NotAvailable('needs --peers DIR')
  if (!existsSync(join(env.peers, file))) throw new NotAvailable(`no ${file} in the folder of peers`)
}

const servers = {
  floor: (env, args, { requestBytes }) => [env.programs.floor, '--request-bytes', requestBytes, ...args],
  millrace: (env, args) => [node(env), '--expose-gc', script('millrace.mjs'), ...args],
  node: (env, args) => [node(env), '--expose-gc', script('node-http.mjs'), ...args],
  uws: (env, args) => {
    needPeers(env, 'node_modules/@btc-vision/uwebsockets.js/package.json')
    return [node(env), '--expose-gc', script('uws.mjs'), env.peers, ...args]
  },
  bun: (env, args) => {
    needPeers(env, 'bun')
    return [join(env.peers, 'bun'), script('bun.mjs'), ...args]
  }
}

export function pinned (cpu, command) {
  return cpu === undefined ? command : ['taskset', '-c', String(cpu), ...command]
}

/** One running server. `next()` is its next line of JSON, undefined when there is none to come. */
class Server {
  #child
  #lines
  #errors = ''
  #exited

  constructor (command) {
    // taskset replaces itself by the server, so the pid is the server's.
    this.#child = spawn(command[0], command.slice(1).map(String), { stdio: ['pipe', 'pipe', 'pipe'] })
    this.#child.stdin.on('error', () => {}) // it may be gone already; its exit says why
    this.#child.stderr.on('data', (chunk) => { this.#errors = (this.#errors + chunk).slice(-4000) })
    this.#exited = new Promise((resolve) => {
      this.#child.once('error', (error) => { this.#errors = error.message; resolve() })
      this.#child.once('exit', resolve)
    })
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]()
  }

  get pid () {
    return this.#child.pid
  }

  /** The line that says most in what it wrote to stderr: of a stack trace, the error's own. */
  get complaint () {
    const lines = this.#errors.split('\n').map((line) => line.trim()).filter(Boolean)
    return lines.find((line) => /^\w*Error\b/.test(line)) ?? lines.at(-1) ?? 'it ended without a word'
  }

  async next (ms = STOP_MS) {
    let timer
    const late = new Promise((resolve, reject) => {
      timer = setTimeout(() => reject(new Error(`the server said nothing for ${ms} ms`)), ms)
    })
    try {
      const { value, done } = await Promise.race([this.#lines.next(), late])
      return done ? undefined : JSON.parse(value)
    } finally {
      clearTimeout(timer)
    }
  }

  tell (line) {
    this.#child.stdin.write(`${line}\n`)
  }

  /** Closes its standard input, which ends it; kills it when that does not. */
  async stop () {
    this.#child.stdin.end()
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), STOP_MS)
    await this.#exited
    clearTimeout(timer)
  }
}

/** Starts a scenario's server; throws NotAvailable with the reason when it does not come up. */
export async function startServer (env, scenario, facts) {
  const command = servers[scenario.server](env, scenario.args ?? [], facts)
  const server = new Server(pinned(env.pins.server, command))
  try {
    server.facts = await server.next(START_MS)
    if (!server.facts) {
      await server.stop()
      throw new NotAvailable(server.complaint)
    }
    if (scenario.server === 'millrace' && server.facts.engine !== 'native') {
      throw new NotAvailable(`engine is ${server.facts.engine}, not native: ${server.facts.reason ?? 'no reason given'}`)
    }
  } catch (error) {
    await server.stop()
    throw error
  }
  return server
}
