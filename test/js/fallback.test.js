'use strict'
// What a program for fleets finds on node:http: the same calls, one thread, and a word on what is not there.

const { test } = require('node:test')
const assert = require('node:assert')
const path = require('node:path')
const { spawnSync } = require('node:child_process')

const ROOT = path.join(__dirname, '..', '..')

function run (code) {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['-e', code], {
    cwd: ROOT, encoding: 'utf8', timeout: 30000, env: { ...process.env, MILLRACE_ENGINE: 'node' }
  })
  assert.strictEqual(status, 0, stderr)
  return { said: stdout.trim().split('\n').map(JSON.parse), stderr }
}

test('a server has its metrics and health, and says what it does without', () => {
  const { said, stderr } = run(`
    const { serve } = require('./lib/index.js')
    const say = (value) => console.log(JSON.stringify(value))
    ;(async () => {
      const server = await serve({ port: 0, host: '127.0.0.1', threads: 2, metrics: '/m', health: '/h', ready: '/r', limits: { rate: { perSecond: 1 } }, accessLog: { fd: 1 } })
      const ask = async (path) => { const r = await fetch(server.url + path); return [r.status, r.headers.get('content-type'), await r.text()] }
      say((await ask('/h'))[2].includes('"status":"ok"'))
      say((await ask('/r'))[0])
      say((await ask('/m'))[2].includes('millrace_thread_connections{thread="0"}'))
      say([server.metrics().length > 0, server.health().threads.length])
      await server.close({ deadline: 0 })
    })()`)
  assert.deepStrictEqual(said, [true, 200, true, [true, 1]])
  assert.match(stderr, /no limits\.rate, no accessLog/)
})

test('launch() runs the program here, with the calls of a fleet', () => {
  const { said } = run(`
    const { launch, bus, self } = require('./lib/index.js')
    const say = (value) => console.log(JSON.stringify(value))
    ;(async () => {
      self.onExit(() => say('hook'))
      const fleet = await launch('./test/fleet/apps/metrics.cjs', { threads: 4, signals: false })
      fleet.on('down', (thread, reason) => say(['down', thread, reason]))
      say([fleet.threads, fleet.engine, fleet.balance.mode, self.index, self.threads])
      say(await (await fetch(fleet.url + '/order/a')).text())
      bus.on('add', ([a, b]) => a + b)
      say(await bus.call(0, 'add', [1, 2]))
      say(fleet.health().status)
      await fleet.reload().catch((err) => say(err.code))
      await fleet.close({ deadline: 0 })
      await fleet.done
    })()`)
  assert.deepStrictEqual(said, [[1, 'node', 'none', 0, 1], '0', 3, 'ok', 'ERR_MILLRACE_UNSUPPORTED', 'hook', ['down', 0, null]])
})
