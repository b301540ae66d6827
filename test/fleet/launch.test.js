'use strict'
// Starting a fleet: what is ready when, who is who, and what it says when it cannot.

const { test } = require('node:test')
const assert = require('node:assert')
const { fork } = require('node:child_process')
const { once } = require('node:events')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { run } = require('../proc/_child')
const { app } = require('./_fleet')
const { threadsOfMachine } = require('../../lib/cpus')

test('a launched fleet listens in every thread, and says where', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { get, isFree, leave, oneEach, open, threadNames } = require('../fleet/_fleet')
    const { bus, self } = require('../..')
    const fleet = await open({ threads: 3 })
    assert.strictEqual(fleet.threads, 3)
    assert.strictEqual(fleet.engine, 'native')
    assert.strictEqual(fleet.host, '127.0.0.1')
    assert.ok(fleet.port > 0)
    assert.strictEqual(fleet.url, `http://127.0.0.1:${fleet.port}`)
    assert.deepStrictEqual(fleet.addresses, [{ url: fleet.url, host: '127.0.0.1', port: fleet.port, path: null }])
    assert.strictEqual(self.index, -1)
    assert.strictEqual(self.threads, 3)
    for (let thread = 0; thread < 3; thread++) {
      const { threadId, ...who } = await bus.call(thread, 'who')
      assert.deepStrictEqual(who, { thread, threads: 3, isMainThread: false })
      assert.ok(threadId > 0)
    }
    leave(await oneEach(fleet, 3)) // all on the one port that 0 stood for
    assert.deepStrictEqual(threadNames().filter((name) => name.startsWith('mr-')).sort(), ['mr-0', 'mr-1', 'mr-2'])
    const health = await get(fleet, '/healthz')
    assert.strictEqual(health.status, 'ok')
    assert.deepStrictEqual(health.threads.map(({ thread, state }) => [thread, state]), [[0, 'up'], [1, 'up'], [2, 'up']])
    assert.strictEqual(fleet.health().threads.length, 3)
    assert.strictEqual(await isFree(fleet.port), false)
    await fleet.close()
    assert.strictEqual(await isFree(fleet.port), true)
    await fleet.done
    assert.deepStrictEqual(threadNames().filter((name) => name.startsWith('mr-')), [])
    for (const call of [() => fleet.metrics(), () => fleet.health()]) assert.throws(call, { code: 'ERR_MILLRACE_CLOSED' })
    await assert.rejects(fleet.reload(), { code: 'ERR_MILLRACE_CLOSED' })
  })
})

test('the program is an ECMAScript module, by path and by URL', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { pathToFileURL } = require('node:url')
    const { app, get } = require('../fleet/_fleet')
    const { launch } = require('../..')
    const file = app('esm.mjs')
    for (const entry of [file, pathToFileURL(file), pathToFileURL(file).href]) {
      const fleet = await launch(entry, { threads: 2, signals: false })
      const { thread, threads } = await get(fleet, '/who')
      assert.ok([0, 1].includes(thread))
      assert.strictEqual(threads, 2)
      await fleet.close()
    }
  })
})

test('what is no program, and what is no option, is refused', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { app, open } = require('../fleet/_fleet')
    const { launch } = require('../..')
    for (const entry of [undefined, 3, '', null]) await assert.rejects(launch(entry), { code: 'ERR_MILLRACE_OPTION' })
    await assert.rejects(open({}, 'absent.cjs'), { code: 'MODULE_NOT_FOUND' })
    for (const options of [{ threads: 0 }, { threads: 65 }, { threads: 1.5 }, { threads: 'all' }, { restarts: -1 }, { stuckAfter: 49 }]) {
      await assert.rejects(open(options), { code: 'ERR_MILLRACE_OPTION_RANGE' })
    }
    const select = () => 0
    for (const options of [
      { balance: 'fair' }, { balance: 'select' }, { balance: 'rotate', select }, { balance: 'reuseport', admit: select }, { pin: 1 },
      { signals: 'SIGTERM' }, { treads: 2 }, { select: 1 }
    ]) await assert.rejects(open(options), { code: 'ERR_MILLRACE_OPTION' })
    await assert.rejects(launch(app(), null), { code: 'ERR_MILLRACE_OPTION' })
  })
})

test('a thread that fails to start fails the launch with its own error, and nothing stays', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const net = require('node:net')
    const { descriptors, once, open, threadNames, until } = require('../fleet/_fleet')
    const other = net.createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    const { port } = other.address()
    await assert.rejects(open({ workerData: { way: 'throws' } }, 'broken.cjs'), { message: 'broken as told' }) // settles what is opened once
    const before = descriptors()
    const expected = {
      throws: { name: 'RangeError', message: 'broken as told', code: 'ERR_AS_TOLD' },
      rejects: { name: 'RangeError', message: 'broken as told' },
      exits: { code: 'ERR_MILLRACE_THREAD_EXITED', message: /^Thread 1 ended with code 7 before it listened\./ },
      'takes a port in use': { code: 'ERR_MILLRACE_PORT_IN_USE' }
    }
    for (const [way, shape] of Object.entries(expected)) {
      await assert.rejects(open({ workerData: { way, port } }, 'broken.cjs'), shape, way)
    }
    await assert.rejects(open({ workerData: { way: 'never serves' }, launchTimeout: 500 }, 'broken.cjs'), { code: 'ERR_MILLRACE_LAUNCH' })
    await until('all descriptors are closed', () => descriptors() <= before)
    assert.deepStrictEqual(threadNames().filter((name) => name.startsWith('mr-')), [])
    other.close()
  })
})

// Sends its first message, and its exit code.
async function own () {
  const child = fork(app('own.cjs'), { env: { ...process.env, MILLRACE_ENGINE: 'native' } })
  const [message] = await once(child, 'message')
  return { child, message }
}

test('serve({ threads }) runs its own program in every thread', async () => {
  const { child, message } = await own()
  const { index, threads, port, url, addresses } = message
  assert.deepStrictEqual({ index, threads, url, places: addresses.length }, { index: -1, threads: 2, url: `http://127.0.0.1:${port}`, places: 1 })
  const { get } = require('./_fleet')
  const { thread, threads: seen } = await get({ port }, '/who')
  assert.ok([0, 1].includes(thread))
  assert.strictEqual(seen, 2)
  child.send('close')
  assert.deepStrictEqual(await once(child, 'exit'), [0, null])
})

test('no fleet starts in a worker, or in a thread of a fleet', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open } = require('../fleet/_fleet')
    const { bus } = require('../..')
    const fleet = await open({}, 'nested.cjs')
    assert.strictEqual(await bus.call(1, 'launch'), 'ERR_MILLRACE_OPTION')
    assert.strictEqual(await bus.call(1, 'serve'), 'MillraceServer') // threads is the fleet's affair there
    await fleet.close()
  })
  const child = fork(app('nested.cjs'), { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] })
  let text = ''
  child.stdout.on('data', (chunk) => { text += chunk })
  await once(child, 'close')
  assert.deepStrictEqual(JSON.parse(text), [0, 'ERR_MILLRACE_OPTION', 'ERR_MILLRACE_OPTION'])
})

test('argv, env, workerData and overrides reach the threads', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { get, open } = require('../fleet/_fleet')
    const fleet = await open({
      argv: ['one'],
      env: { ...process.env, HELLO: 'there' },
      workerData: { greeting: 'hi' },
      overrides: { health: '/other' }
    }, 'given.cjs')
    assert.deepStrictEqual(await get(fleet, '/'), { argv: ['one'], hello: 'there', workerData: { greeting: 'hi' } })
    assert.strictEqual((await get(fleet, '/other')).status, 'ok')
    await fleet.close()
  })
})

test('pin puts each thread on a CPU of its own, and only when asked', { skip: process.platform !== 'linux' }, async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const fs = require('node:fs')
    const { open } = require('../fleet/_fleet')
    const masks = () => {
      const found = {}
      for (const id of fs.readdirSync('/proc/self/task')) {
        const text = fs.readFileSync(`/proc/self/task/${id}/status`, 'utf8')
        const [, name] = /^Name:\t(.*)$/m.exec(text)
        if (name.startsWith('mr-')) found[name] = /^Cpus_allowed_list:\t(.*)$/m.exec(text)[1]
      }
      return found
    }
    const whole = /^Cpus_allowed_list:\t(.*)$/m.exec(fs.readFileSync('/proc/self/status', 'utf8'))[1]
    const free = await open()
    assert.deepStrictEqual(masks(), { 'mr-0': whole, 'mr-1': whole })
    await free.close()
    if (whole !== '0-1' && !whole.startsWith('0-')) return // by number there is none to be expected
    const pinned = await open({ pin: true })
    assert.deepStrictEqual(masks(), { 'mr-0': '0', 'mr-1': '1' })
    await pinned.close()
  })
})

test("fleet.balance says what 'auto' chose, and why", async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open } = require('../fleet/_fleet')
    const auto = process.platform === 'linux' ? 'reuseport' : 'rotate'
    const yes = () => {}
    for (const [options, mode] of [[{}, auto], [{ balance: 'auto', select: yes }, 'select'], [{ admit: yes }, 'rotate'], [{ balance: 'least', admit: yes }, 'least']]) {
      const fleet = await open({ threads: 1, ...options })
      assert.strictEqual(fleet.balance.mode, mode)
      assert.match(fleet.balance.reason, /^[A-Z].*\.$/)
      await fleet.close()
    }
  })
})

// A folder that looks like the system's, with these files.
function rootOf (t, files) {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'millrace-root-'))
  t.after(() => fs.rmSync(root, { recursive: true }))
  for (const [name, text] of Object.entries(files)) {
    const file = path.join(root, name)
    fs.mkdirSync(path.dirname(file), { recursive: true })
    fs.writeFileSync(file, text)
  }
  return root
}

test("threads: 'auto' reads the quota of control groups", (t) => {
  const cpus = os.availableParallelism()
  const most = Math.min(64, cpus)
  const v2 = (group, files) => Object.assign({ 'proc/self/cgroup': `0::${group}\n` }, ...Object.entries(files).map(([name, text]) => ({ [`sys/fs/cgroup${name}`]: text })))
  const v1 = (group, quota, period, mount = 'cpu') => ({
    'proc/self/cgroup': `12:pids:/a\n4:cpu,cpuacct:${group}\n`,
    [`sys/fs/cgroup/${mount}${group === '/' ? '' : group}/cpu.cfs_quota_us`]: quota,
    [`sys/fs/cgroup/${mount}${group === '/' ? '' : group}/cpu.cfs_period_us`]: period
  })
  const rows = [
    ['no control groups', {}, Infinity],
    ['no quota', v2('/a', { '/a/cpu.max': 'max 100000\n' }), Infinity],
    ['a half', v2('/a', { '/a/cpu.max': '50000 100000\n' }), 1],
    ['one', v2('/a', { '/a/cpu.max': '100000 100000\n' }), 1],
    ['one and a half', v2('/a', { '/a/cpu.max': '150000 100000\n' }), 2],
    ['of the parent', v2('/a/b', { '/a/cpu.max': '100000 100000\n', '/a/b/cpu.max': 'max 100000\n' }), 1],
    ['of the root', v2('/', { '/cpu.max': '100000 100000\n' }), 1],
    ['the least of them', v2('/a/b', { '/a/cpu.max': '400000 100000\n', '/a/b/cpu.max': '10000 100000\n' }), 1],
    ['nonsense', v2('/a', { '/a/cpu.max': 'a lot\n' }), Infinity],
    ['empty', v2('/a', { '/a/cpu.max': '' }), Infinity],
    ['version 1', v1('/a', '100000\n', '100000\n'), 1],
    ['version 1, mounted as both', v1('/a', '100000\n', '100000\n', 'cpu,cpuacct'), 1],
    ['version 1, none', v1('/a', '-1\n', '100000\n'), Infinity],
    ['version 1, the root', v1('/', '50000\n', '100000\n'), 1]
  ]
  for (const [what, files, quota] of rows) {
    assert.strictEqual(threadsOfMachine(rootOf(t, files)), Math.min(most, quota), what)
  }
})
