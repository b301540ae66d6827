'use strict'
// What the children of these tests use. Each test runs a function in a process of its own
// (test/proc/_child.js); there it launches one of apps/ and asks it over HTTP or the bus.

const fs = require('node:fs')
const net = require('node:net')
const os = require('node:os')
const path = require('node:path')
const { launch } = require('../..')
const { ask, connect, request } = require('../js/_client')
const { descriptors, pause, until } = require('../proc/_inside')

const app = (name = 'main.cjs') => path.join(__dirname, 'apps', name)

// A fleet of the program that most tests use.
function open (options, name) {
  return launch(app(name), { threads: 2, signals: false, ...options })
}

async function get (server, target) {
  const response = await ask(server, 'GET', target)
  return response.headers['content-type']?.includes('json') ? JSON.parse(response.body) : response.body
}

// Connections that each have been answered once, by the thread that `thread` names.
async function crowd (server, count, target = '/who') {
  const clients = []
  for (let i = 0; i < count; i += 100) {
    await Promise.all(Array.from({ length: Math.min(100, count - i) }, async () => {
      const client = connect(server)
      clients.push(client)
      client.write(request('GET', target))
      Object.assign(client, JSON.parse((await client.next()).body))
    }))
  }
  return clients
}

function leave (clients) {
  for (const client of clients) client.destroy()
}

// How many clients each thread has.
function shares (clients, threads) {
  const counts = Array(threads).fill(0)
  for (const { thread } of clients) counts[thread]++
  return counts
}

// One on each thread: asked by new connections until every thread has answered one.
async function oneEach (server, threads) {
  const found = Array(threads).fill(null)
  await until('every thread has a connection', async () => {
    const [client] = await crowd(server, 1)
    if (found[client.thread] === null) found[client.thread] = client
    else client.destroy()
    return found.every((each) => each !== null)
  })
  return found
}

// The names of this process's threads, as ps -T has them.
function threadNames () {
  return fs.readdirSync('/proc/self/task').map((id) => fs.readFileSync(`/proc/self/task/${id}/comm`, 'utf8').trim())
}

// Whether the port can be had, without SO_REUSEPORT.
function isFree (port) {
  return new Promise((resolve) => {
    const server = net.createServer()
    server.once('error', () => resolve(false))
    server.listen({ port, host: '127.0.0.1' }, () => server.close(() => resolve(true)))
  })
}

// The value of a line of /metrics, or 0.
function metric (text, line) {
  const found = text.split('\n').find((each) => each.startsWith(`${line} `))
  return found === undefined ? 0 : Number(found.slice(line.length + 1))
}

// What a program and its supervisor share; see apps/main.cjs.
function switches () {
  const flag = new Int32Array(new SharedArrayBuffer(12))
  const set = (at, value) => { Atomics.store(flag, at, value); Atomics.notify(flag, at) }
  return {
    flag: flag.buffer,
    hang: () => set(0, 0),
    release: () => set(0, 1),
    isHanging: () => Atomics.load(flag, 2) > 0,
    hold: () => set(1, 1),
    letStart: () => set(1, 0)
  }
}

// A module that a test writes anew; threads that start afterwards load the new text.
function source () {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'millrace-code-'))
  const file = path.join(folder, 'code.cjs')
  return { path: file, write: (text) => fs.writeFileSync(file, text), remove: () => fs.rmSync(folder, { recursive: true }) }
}

// What the supervisor says of threads that end is not part of the output; everything else is.
function quiet () {
  const { error } = console
  console.error = (first, ...rest) => { if (!String(first).startsWith('millrace: ')) error(first, ...rest) }
}

function once (emitter, event) {
  return new Promise((resolve) => { emitter.once(event, (...args) => resolve(args)) })
}

module.exports = {
  app, ask, connect, crowd, descriptors, get, isFree, leave, metric, once, oneEach, open, pause, quiet, request, shares, source, switches, threadNames, until
}
