'use strict'
// nginx in front of a server, with kept connections between the two, which one of them closes when they
// have been idle for a second:
//   nginx       nginx does, as it should be set up; nothing may go wrong
//   nginx-idle  the server does, while nginx may just be using them. A request that crosses the FIN on
//               its way cannot be answered any more, whatever the server does (RFC 9112 9.5): nginx
//               sends it again by another connection when its method is safe, and answers 502 when it
//               is not. Anything else is a failure, and so are more of these than a race explains.

const { spawn, spawnSync } = require('node:child_process')
const { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } = require('node:fs')
const http = require('node:http')
const net = require('node:net')
const { tmpdir } = require('node:os')
const { join } = require('node:path')
const { once } = require('node:events')
const { withChild, pause } = require('./child')
const { textOf, answerTo } = require('./clients')
const { pieces, isRight } = require('./pattern')
const { Report } = require('./scenarios')

const SHORT_MS = 1000
const LONG_MS = 75000
const CROSSED_MAX = 0.01 // of the connections that the server closed; some 0.001 are seen
const CLIENTS = 32
const BURST = 6 // requests of one client between two pauses
const PAUSE_MIN_MS = 900
const PAUSE_MAX_MS = 2100 // time-outs come up to a second late
const SPREAD_MS = 50
const STREAM_BYTES = 300000
const LOOKS = 500 // at 10 ms, for nginx to listen
const SHOWN = 5

const binary = () => ['nginx', '/usr/sbin/nginx'].find((name) => spawnSync(name, ['-v']).status === 0)

function configOf (dir, port, idleMs) {
  const user = process.getuid() === 0 ? 'user root;' : ''
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${dir}/${name};`)
  return `${user}
daemon off;
worker_processes 1;
pid ${dir}/pid;
error_log ${dir}/error.log warn;
events { worker_connections 512; }
http {
  ${paths.join('\n  ')}
  log_format soak '$status|$upstream_status|$request_method';
  access_log ${dir}/access.log soak;
  keepalive_timeout 60s;
  keepalive_requests 1000000;
  client_max_body_size 64m;
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  upstream app { server 127.0.0.1:${port}; keepalive 64; keepalive_timeout ${idleMs}ms; }
  server {
    listen unix:${dir}/socket;
    location / { proxy_pass http://app; }
    location /direct/ {
      proxy_pass http://app/;
      proxy_buffering off;
      proxy_request_buffering off;
    }
  }
}
`
}

async function isListening (path) {
  const socket = net.connect(path)
  const isThere = await once(socket, 'connect').then(() => true, () => false)
  socket.destroy()
  return isThere
}

// Runs `use(path of nginx's socket, folder of its logs)`.
async function withNginx (command, port, idleMs, use) {
  const dir = mkdtempSync(join(tmpdir(), 'millrace-soak-'))
  const file = join(dir, 'nginx.conf')
  mkdirSync(join(dir, 'logs'))
  writeFileSync(file, configOf(dir, port, idleMs))
  const nginx = spawn(command, ['-p', dir, '-c', file, '-e', join(dir, 'error.log')], { stdio: ['ignore', 'inherit', 'inherit'] })
  const ended = once(nginx, 'close')
  try {
    const path = join(dir, 'socket')
    for (let i = 0; i < LOOKS && nginx.exitCode === null && !await isListening(path); i++) await pause(10)
    return await use(path, dir)
  } finally {
    if (nginx.exitCode === null) nginx.kill('SIGTERM')
    await ended
    rmSync(dir, { recursive: true })
  }
}

// ---- load ----

// method, path, what is sent (octets, in one piece or chunked), how the answer is checked
const KINDS = [
  { method: 'GET', path: '/fixed', answer: 'fixed' },
  { method: 'GET', path: '/later', answer: 'later' },
  { method: 'GET', path: `/write?bytes=${STREAM_BYTES}`, bytes: STREAM_BYTES },
  { method: 'GET', path: `/direct/readable?bytes=${STREAM_BYTES}`, bytes: STREAM_BYTES },
  { method: 'POST', path: '/echo', body: 1024, bytes: 1024 },
  { method: 'POST', path: '/pipe', body: 200000, bytes: 200000 },
  { method: 'POST', path: '/direct/echo', body: 1024, bytes: 1024 },
  { method: 'POST', path: '/direct/pipe', body: 200000, isChunked: true, bytes: 200000 }
]

async function send (socketPath, agent, { method, path, body = 0, isChunked = false }) {
  const headers = method === 'POST' && !isChunked ? { 'Content-Length': body } : {}
  const request = http.request({ socketPath, path, method, agent, headers })
  const answer = answerTo(request)
  for (const piece of pieces(body, 65536)) request.write(piece)
  request.end()
  return answer
}

// '' or what is wrong.
async function attempt (socketPath, agent, kind) {
  try {
    const message = await send(socketPath, agent, kind)
    if (message.statusCode !== 200) {
      await textOf(message)
      return `${message.statusCode}`
    }
    if (kind.answer !== undefined) return await textOf(message) === kind.answer ? '' : 'wrong text'
    let [bytes, isSame] = [0, true]
    for await (const chunk of message) {
      isSame = isSame && isRight(chunk, bytes)
      bytes += chunk.length
    }
    return bytes === kind.bytes && isSame ? '' : `${bytes} of ${kind.bytes} octets`
  } catch (err) {
    return err.code ?? err.message
  }
}

async function burst (socketPath, agent, tally) {
  await pause(Math.random() * SPREAD_MS)
  for (let i = 0; i < BURST; i++) {
    const kind = KINDS[Math.floor(Math.random() * KINDS.length)]
    const wrong = await attempt(socketPath, agent, kind)
    tally.requests++
    if (wrong !== '') tally.wrong.push(`${kind.method} ${kind.path}: ${wrong}`)
  }
}

// All clients send together, so that nginx needs many connections (it takes the one that was used last
// and would do with few), and pause together for as long as it takes until these are just being closed.
async function load (socketPath, until, tally) {
  const agents = Array.from({ length: CLIENTS }, () => new http.Agent({ keepAlive: true, maxSockets: 1 }))
  while (Date.now() < until) {
    await Promise.all(agents.map((agent) => burst(socketPath, agent, tally)))
    await pause(PAUSE_MIN_MS + Math.random() * (PAUSE_MAX_MS - PAUSE_MIN_MS))
  }
  for (const agent of agents) agent.destroy()
}

// ---- the scenarios ----

// What nginx says of its own requests to the server.
function logsOf (dir) {
  const lines = readFileSync(join(dir, 'access.log'), 'latin1').trimEnd().split('\n')
  const errors = readFileSync(join(dir, 'error.log'), 'latin1').split('\n').filter((line) => line.includes('[error]'))
  return {
    retried: lines.filter((line) => line.includes(', ')).length,
    bad: lines.filter((line) => /^5/.test(line)).length,
    crossed: errors.filter((line) => /upstream prematurely closed connection while reading response header/.test(line)).length,
    errors
  }
}

function judge (report, tally, accepted, logs) {
  const { retried, bad, errors } = logs
  report.figure(`${tally.requests} requests by ${accepted} connections, ${bad} were 5xx, ${retried} tried again`)
  report.expect(accepted > CLIENTS, 'no connection was closed for being idle')
  report.expect(tally.wrong.length === 0, `${tally.wrong.length} answers were wrong or lost: ${tally.wrong.slice(0, SHOWN).join('; ')}`)
  report.expect(errors.length === 0, `nginx logged ${errors.length} errors: ${errors.slice(0, SHOWN).join('\n')}`)
}

// Those that crossed a FIN are taken out, then the same must hold.
function judgeIdle (report, tally, accepted, logs) {
  const isCrossed = (text) => /^POST .*: 502$/.test(text)
  const lost = tally.wrong.filter(isCrossed).length
  report.expect(logs.crossed <= accepted * CROSSED_MAX, `${logs.crossed} requests met a closing connection, of ${accepted}`)
  report.expect(logs.errors.length === logs.crossed, `nginx logged other errors: ${logs.errors.slice(0, SHOWN).join('\n')}`)
  report.expect(lost + logs.retried === logs.crossed, `${logs.crossed} requests met a closing connection, but ${lost} were 502 and ${logs.retried} tried again`)
  judge(report, { ...tally, wrong: tally.wrong.filter((text) => !isCrossed(text)) }, accepted, { ...logs, errors: [] })
}

// Gives null where there is no nginx.
async function behindNginx (sizes, transport, serverMs, nginxMs, judgeAll) {
  const command = binary()
  if (command === undefined) return null
  const report = new Report()
  const tally = { requests: 0, wrong: [] }
  const timeouts = { keepAlive: serverMs }
  await withChild({ timeouts }, { transport }, (child) => withNginx(command, child.port, nginxMs, async (path, dir) => {
    await load(path, Date.now() + sizes.seconds * 1000, tally)
    const { accepted } = await child.look()
    judgeAll(report, tally, accepted, logsOf(dir))
  }))
  return report
}

const nginxScenario = (sizes, transport) => behindNginx(sizes, transport, LONG_MS, SHORT_MS, judge)
const nginxIdleScenario = (sizes, transport) => behindNginx(sizes, transport, SHORT_MS, LONG_MS, judgeIdle)

module.exports = { nginxScenario, nginxIdleScenario }
