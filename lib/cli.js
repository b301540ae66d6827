#!/usr/bin/env node
'use strict'
// The command: `millrace app.mjs` runs a program as a fleet, `millrace probe` tells what there is to
// run it on. What a thread does with the program is in cli-app.js.

const fs = require('node:fs')
const path = require('node:path')
const { createRequire } = require('node:module')
const { parseArgs } = require('node:util')

const APP = path.join(__dirname, 'cli-app.js')
const OK = 0
const FAILED = 1
const WRONG_USAGE = 2
const QUIET_MS = 100 // without a further change, before --watch reloads
const FOLDERS_MAX = 4096 // that --watch looks at; each is a watch of the kernel's

const HELP = `Usage: millrace PROGRAM [options] [-- arguments of the program]
       millrace probe [--json]

PROGRAM exports the options of serve() as its default, or calls serve() itself.

  --port N           listen on this port, 0 for a free one
  --host HOST        listen on this address
  --threads N        how many threads, or auto for as many as the machine has for it; 1 if not given
  --balance MODE     reuseport, rotate, least or auto: how connections are spread over threads
  --metrics PATH     serve metrics for Prometheus there, as in /metrics
  --health PATH      serve the health of the threads there, as in /healthz
  --access-log FILE  write a line for each request
  --watch            reload when a file of the program's folder changes, for development
  --json             with probe: as JSON
  -h, --help         this text
  -v, --version      the version

SIGTERM and SIGINT drain and end, a second one ends at once. SIGHUP opens the access log anew.
SIGUSR2 reloads the program without closing connections.
Ends with 0 as asked, with 1 when the program failed, with 2 when the command was wrong.
`

const OPTIONS = {
  port: { type: 'string' },
  host: { type: 'string' },
  threads: { type: 'string' },
  balance: { type: 'string' },
  metrics: { type: 'string' },
  health: { type: 'string' },
  'access-log': { type: 'string' },
  watch: { type: 'boolean' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'v' }
}

class UsageError extends Error {}

// ---- reading the command line ----

function wrong (sentence) {
  return new UsageError(sentence)
}

// What stands behind `--` is the program's.
function read (args) {
  const at = args.indexOf('--')
  const own = at < 0 ? args : args.slice(0, at)
  const rest = at < 0 ? [] : args.slice(at + 1)
  try {
    const { values, positionals } = parseArgs({ args: own, options: OPTIONS, allowPositionals: true })
    return { values, positionals, rest }
  } catch (err) {
    if (!String(err.code).startsWith('ERR_PARSE_ARGS')) throw err
    const [sentence] = err.message.split(/\.\s/)
    throw wrong(`${sentence.replace(/\.$/, '')}; millrace --help lists the options.`)
  }
}

function integerOf (name, text, least, most, others = '') {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : NaN
  if (value >= least && value <= most) return value
  throw wrong(`--${name} is an integer from ${least} to ${most}${others}, not '${text}'.`)
}

function targetOf (name, text) {
  if (text.startsWith('/')) return text
  throw wrong(`--${name} is a path that begins with '/', not '${text}'.`)
}

function notEmpty (name, text) {
  if (text !== '') return text
  throw wrong(`--${name} is empty.`)
}

// What takes precedence over the program's own options of serve().
function overridesOf (values) {
  const overrides = {}
  if (values.port !== undefined) overrides.port = integerOf('port', values.port, 0, 65535)
  if (values.host !== undefined) overrides.host = notEmpty('host', values.host)
  if (values.metrics !== undefined) overrides.metrics = targetOf('metrics', values.metrics)
  if (values.health !== undefined) overrides.health = targetOf('health', values.health)
  // From where the command was called, whatever folder the program changes to.
  if (values['access-log'] !== undefined) overrides.accessLog = path.resolve(notEmpty('access-log', values['access-log']))
  if (overrides.metrics !== undefined && overrides.metrics === overrides.health) throw wrong(`--metrics and --health are both '${overrides.health}'.`)
  return overrides
}

function threadsOf (text = '1') {
  const { THREADS_MAX } = require('./cpus')
  return text === 'auto' ? text : integerOf('threads', text, 1, THREADS_MAX, ', or auto')
}

function balanceOf (text) {
  if (['reuseport', 'rotate', 'least', 'auto'].includes(text)) return text
  throw wrong(`--balance is reuseport, rotate, least or auto, not '${text}'.`)
}

function programOf ([name, ...more]) {
  if (name === undefined) throw wrong('Which program? Give its file, as in `millrace app.mjs`; millrace --help tells more.')
  if (more.length > 0) throw wrong(`One program at a time, not '${more[0]}' as well; its own arguments go behind --.`)
  try {
    return require.resolve(path.resolve(name)) // `millrace app` means app.js
  } catch {
    throw wrong(`There is no program '${name}'.`)
  }
}

// ---- probe ----

function lineOf (name, value) {
  return `${name.padEnd(12)} ${value}\n`
}

// One line a fact; what is unknown is left out.
function readable (found) {
  const { engine, version, reason, platform, arch, libc, binary, tried, transport, transportReason, threads, balance, simd, versions, capabilities } = found
  const can = Object.entries(capabilities).map(([name, value]) => `${(value?.ok ?? value) ? '' : 'no '}${name}`)
  const facts = {
    millrace: version,
    engine: engine === 'native' ? 'native' : `node:http, many times slower. ${reason}`,
    binary: binary ?? 'none',
    system: [platform, arch, libc].filter(Boolean).join(' '),
    node: versions.node,
    transport: `${transport}${transportReason && engine === 'native' ? ` (${transportReason})` : ''}`,
    threads: `${threads} with --threads auto`,
    balance: `${balance.mode} (${balance.reason})`,
    simd: simd ?? 'none',
    can: can.join(', ')
  }
  const lines = Object.entries(facts).map(([name, value]) => lineOf(name, value))
  if (binary === null) for (const { path: at, error } of tried) lines.push(lineOf('tried', `${at}: ${error}`))
  return lines.join('')
}

function probe ({ json, ...others }, more) {
  const [other] = [...Object.keys(others).map((name) => `--${name}`), ...more]
  if (other !== undefined) throw wrong(`probe takes --json and nothing else, not '${other}'.`)
  const found = require('./load').probe()
  process.stdout.write(json ? `${JSON.stringify(found, null, 2)}\n` : readable(found))
  return OK
}

// ---- watching ----

function isIgnored (name) {
  return name === 'node_modules' || name.startsWith('.')
}

// Calls back when files below a folder have changed and then rested. One watch for each folder: the
// recursive one of node:fs would go through node_modules as well.
class Watch {
  #watchers = new Map() // folder -> its watcher; at most FOLDERS_MAX
  #except
  #onChange
  #timer = null
  #hasWarned = false

  constructor (root, except, onChange) {
    this.#except = except
    this.#onChange = onChange
    this.#add(root)
  }

  #add (folder) {
    if (this.#watchers.has(folder)) return
    if (this.#watchers.size >= FOLDERS_MAX) {
      this.#warn(`--watch looks at ${FOLDERS_MAX} folders and no more.`)
      return
    }
    try {
      const watcher = fs.watch(folder, (event, name) => this.#hear(folder, name))
      watcher.on('error', () => this.#remove(folder)) // it was removed
      this.#watchers.set(folder, watcher)
      for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
        if (entry.isDirectory() && !isIgnored(entry.name)) this.#add(path.join(folder, entry.name))
      }
    } catch (err) {
      if (err.code !== 'ENOENT' && err.code !== 'ENOTDIR') this.#warn(`--watch cannot look at ${folder}: ${err.message}`)
      this.#remove(folder)
    }
  }

  #remove (folder) {
    this.#watchers.get(folder)?.close()
    this.#watchers.delete(folder)
  }

  #warn (sentence) {
    if (!this.#hasWarned) console.error(`millrace: ${sentence}`)
    this.#hasWarned = true
  }

  #hear (folder, name) {
    if (name === null) return this.#restart()
    if (isIgnored(name)) return
    const changed = path.join(folder, name)
    if (changed === this.#except) return // the access log would reload for each request
    const isFolder = fs.statSync(changed, { throwIfNoEntry: false })?.isDirectory() ?? false
    if (isFolder) this.#add(changed)
    else this.#remove(changed)
    this.#restart()
  }

  #restart () {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(this.#onChange, QUIET_MS)
  }

  close () {
    clearTimeout(this.#timer)
    for (const watcher of this.#watchers.values()) watcher.close()
    this.#watchers.clear()
  }
}

// ---- running ----

// Reloads that are asked for during one become one more, after it.
function reloader (fleet) {
  let isRunning = false
  let isWanted = false
  return async () => {
    isWanted = true
    if (isRunning) return
    isRunning = true
    while (isWanted) {
      isWanted = false
      try {
        await fleet.reload()
        console.log('millrace: reloaded')
      } catch (err) {
        if (err.code === 'ERR_MILLRACE_CLOSED') break
        console.error('millrace: not reloaded, what ran before goes on:', err)
      }
    }
    isRunning = false
  }
}

function announce (fleet, threads) {
  const count = fleet.threads === 1 ? '1 thread' : `${fleet.threads} threads, ${fleet.balance.mode}`
  console.log(`millrace: ${fleet.url ?? fleet.path ?? 'listening'} (${count})`)
  if (fleet.engine === 'node' && threads !== 1) console.error('millrace: without the native engine there is one thread, whatever --threads says.')
}

function attend (fleet, program, values, overrides) {
  const reload = reloader(fleet)
  process.on('SIGUSR2', reload)
  // The fallback writes no access log, but the signal must not end it.
  if (fleet.engine === 'node') process.on('SIGHUP', () => {}) // there is no log to open anew
  if (!values.watch) return
  if (fleet.engine === 'node') {
    console.error('millrace: --watch needs the native engine; `node --watch` restarts the process instead.')
    return
  }
  const watch = new Watch(path.dirname(program), overrides.accessLog, reload)
  const close = () => watch.close()
  fleet.done.then(close, close)
}

async function run (values, positionals, rest) {
  if (values.json) throw wrong('--json goes with probe only.')
  const overrides = overridesOf(values)
  const threads = threadsOf(values.threads)
  const balance = values.balance === undefined ? undefined : balanceOf(values.balance)
  const program = programOf(positionals)
  const { launch } = require('./serve')
  const argv = [program, ...rest]
  process.argv = [process.argv[0], APP, ...argv] // the fallback runs the program in this thread
  const fleet = await launch(APP, { threads, balance, argv, overrides })
  attend(fleet, program, values, overrides) // before it is said that it runs: from then on it is to hear
  announce(fleet, threads)
  fleet.on?.('error', () => {}) // done has it
  await fleet.done
  return OK
}

// A program that has a millrace of its own is run by that one: two copies share nothing.
function nearest (positionals) {
  if (positionals.length === 0) return exports
  try {
    const own = createRequire(path.resolve(positionals[0])).resolve('millrace/package.json')
    const command = path.join(path.dirname(own), 'lib', 'cli.js')
    return fs.realpathSync(command) === fs.realpathSync(__filename) ? exports : require(command)
  } catch {
    return exports
  }
}

// Resolves to the exit code.
async function command ({ values, positionals, rest }) {
  if (values.help) return void process.stdout.write(HELP)
  if (values.version) return void process.stdout.write(`${require('../package.json').version}\n`)
  const [word, ...more] = positionals
  if (word === 'probe') return probe(values, more)
  if (word === 'files') throw wrong('`millrace files` comes with a later version; a program is run with `millrace app.mjs`.')
  return run(values, positionals, rest)
}

async function main (args) {
  try {
    const line = read(args)
    const code = await nearest(line.positionals).command(line)
    process.exitCode = code ?? OK
  } catch (err) {
    const isUsage = err?.constructor?.name === 'UsageError' // another copy's class is another one
    console.error(isUsage ? `millrace: ${err.message}` : 'millrace: the program failed:', ...(isUsage ? [] : [err]))
    process.exit(isUsage ? WRONG_USAGE : FAILED)
  }
}

exports.command = command

if (require.main === module) main(process.argv.slice(2))
