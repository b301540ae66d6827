// One scenario, once: start, check, measure, stop.

import { execFile, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { setTimeout as sleep } from 'node:timers/promises'
import { pinned, startServer } from './servers.mjs'

const CHECK_REQUESTS = 3
const MEMORY_WARMUP_REQUESTS = 20_000

/** The server answered wrongly or not at all: its figures would be figures of something else. */
export class Failed extends Error {}

function loadCommand (env, scenario, extra) {
  const expected = ['--path', scenario.path, '--expect-body', scenario.body]
  return pinned(env.pins.generator, [env.programs.load, ...expected, ...scenario.load, ...extra])
}

async function runLoad (env, scenario, extra, seconds) {
  const [file, ...args] = loadCommand(env, scenario, extra)
  let output
  try {
    // It ends by itself; the time limit is for the case that it does not.
    output = await promisify(execFile)(file, args, { timeout: (seconds + 15) * 1000, killSignal: 'SIGKILL' })
  } catch (error) {
    if (!error.stdout?.startsWith('{')) throw new Failed(`the generator failed: ${error.stderr || error.message}`)
    output = error // errors it counted; they are in its report
  }
  const result = JSON.parse(output.stdout)
  if (result.errors > 0) {
    const kinds = Object.entries(result.errorKinds).filter(([, count]) => count > 0)
    throw new Failed(`${kinds.map(([kind, count]) => `${count} ${kind}`).join(', ')}; first: ${result.firstError}`)
  }
  return result
}

async function requestBytes (env, scenario) {
  const [file, ...args] = loadCommand(env, scenario, ['--print-request'])
  const { stdout } = await promisify(execFile)(file, args)
  return JSON.parse(stdout).requestBytes
}

/** A few requests on one connection; throws Failed when the answers are not the expected ones. */
function check (env, scenario, server) {
  const extra = ['--port', server.facts.port, '--connections', 1, '--depth', 1, '--requests', CHECK_REQUESTS]
  return runLoad(env, scenario, extra.map(String), 5)
}

function figures (result) {
  const perRequest = (ns) => ns / 1000 / result.requests
  const totalUs = perRequest(result.server.totalNs)
  const userShare = result.server.ticksNs > 0 ? result.server.userTicksNs / result.server.ticksNs : 0
  return {
    totalUs,
    userUs: totalUs * userShare,
    systemUs: totalUs * (1 - userShare),
    requestsPerSecond: result.requestsPerSecond,
    p50Us: result.latencyUs.p50,
    p99Us: result.latencyUs.p99,
    serverBusy: result.server.totalNs / 1e9 / result.seconds,
    generatorBusy: result.generator.totalNs / 1e9 / result.seconds,
    generatorUs: perRequest(result.generator.totalNs),
    raw: result
  }
}

async function measureCpu (env, scenario, server) {
  const extra = ['--port', server.facts.port, '--pid', server.pid, '--warmup', env.warmup, '--seconds', env.seconds]
  const result = await runLoad(env, scenario, extra.map(String), env.warmup + env.seconds)
  if (!result.server) throw new Failed('the server ended while it was measured')
  if (result.requests === 0) throw new Failed('no request was answered in the window')
  if (result.reconnects > 0) throw new Failed(`the server closed ${result.reconnects} connections that were to be kept`)
  return figures(result)
}

/**
 * Anonymous memory by walking the page tables. RssAnon of /proc/PID/status is the same quantity,
 * but many kernels report it from per-CPU counters that lag by up to some hundred KiB.
 */
function anonymousBytes (pid) {
  const read = (file, pattern) => Number(readFileSync(`/proc/${pid}/${file}`, 'utf8').match(pattern)[1]) * 1024
  try {
    return read('smaps_rollup', /^Anonymous:\s+(\d+) kB/m)
  } catch {
    return read('status', /^RssAnon:\s+(\d+) kB/m)
  }
}

async function settledBytes (server) {
  for (let i = 0; i < 2; i++) {
    server.tell('gc')
    if (!await server.next(20_000)) throw new Failed('the server ended')
    await sleep(100)
  }
  return anonymousBytes(server.pid)
}

async function holdIdle (env, scenario, server, work) {
  const extra = ['--port', server.facts.port, '--connections', scenario.connections, '--idle']
  const [file, ...args] = loadCommand(env, scenario, extra.map(String))
  const child = spawn(file, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const timer = setTimeout(() => child.kill('SIGKILL'), 60_000)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  try {
    if ((await lines.next()).done) throw new Failed('the idle connections could not be opened')
    const value = await work()
    child.stdin.end()
    const { held } = JSON.parse((await lines.next()).value ?? '{}')
    if (held !== scenario.connections) throw new Failed(`only ${held} of ${scenario.connections} connections were held`)
    return value
  } finally {
    child.stdin.end()
    clearTimeout(timer)
  }
}

async function measureMemory (env, scenario, server) {
  const extra = ['--port', server.facts.port, '--requests', MEMORY_WARMUP_REQUESTS]
  await runLoad(env, scenario, extra.map(String), 10)
  const before = await settledBytes(server)
  const after = await holdIdle(env, scenario, server, () => settledBytes(server))
  return { bytes: (after - before) / scenario.connections, raw: { before, after, connections: scenario.connections } }
}

/** The floor says at its end how much it answered: the generator must have counted the same. */
async function compareCounts (server, answered) {
  const { requests } = await server.next()
  if (requests !== answered) throw new Failed(`the floor answered ${requests} requests, the generator counted ${answered}`)
}

/** Returns figures and the server's facts. Throws NotAvailable or Failed. */
export async function measure (env, scenario) {
  const server = await startServer(env, scenario, { requestBytes: await requestBytes(env, scenario) })
  try {
    const checked = await check(env, scenario, server)
    const run = scenario.kind === 'memory' ? measureMemory : measureCpu
    const result = await run(env, scenario, server)
    await server.stop()
    if (scenario.server === 'floor') await compareCounts(server, checked.answered + result.raw.answered)
    return { ...result, facts: server.facts }
  } finally {
    await server.stop()
  }
}
