// What a figure is worth nothing without: the machine, and which of its CPUs do what.

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import os from 'node:os'

function read (path) {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return ''
  }
}

function firstLine (command, args) {
  try {
    return execFileSync(command, args, { stdio: ['ignore', 'pipe', 'ignore'] }).toString().split('\n')[0].trim()
  } catch {
    return ''
  }
}

/** '0-2,5' as [0, 1, 2, 5]. */
export function parseCpuList (text) {
  return text.split(',').filter(Boolean).flatMap((part) => {
    const [first, last = first] = part.split('-').map(Number)
    return Array.from({ length: last - first + 1 }, (_, i) => first + i)
  })
}

function allowedCpus () {
  const line = read('/proc/self/status').match(/^Cpus_allowed_list:\s*(\S+)/m)
  return line ? parseCpuList(line[1]) : os.cpus().map((_, i) => i)
}

function coreOf (cpu) {
  const topology = `/sys/devices/system/cpu/cpu${cpu}/topology`
  return `${read(`${topology}/physical_package_id`)}:${read(`${topology}/core_id`) || cpu}`
}

/**
 * A CPU for the server and one on another core for the generator, and what to say when that cannot
 * be had. The server gets the last one: the first ones are where interrupts tend to land.
 */
export function choosePins () {
  const cpus = allowedCpus()
  const server = cpus.at(-1)
  const others = cpus.filter((cpu) => cpu !== server)
  const generator = others.find((cpu) => coreOf(cpu) !== coreOf(server)) ?? others[0]
  if (!firstLine('taskset', ['--version'])) {
    return { notes: ['taskset is missing (package util-linux): nothing is pinned, expect more noise'] }
  }
  if (generator === undefined) {
    return { server, generator: server, notes: ['one CPU only: server and generator share it, latencies and requests/s mean little'] }
  }
  const notes = coreOf(generator) === coreOf(server) ? ['server and generator share one core: expect higher figures'] : []
  return { server, generator, notes }
}

export function describeMachine () {
  const cpus = os.cpus()
  return {
    cpu: cpus[0]?.model ?? 'unknown',
    cpus: cpus.length,
    memoryGiB: Math.round(os.totalmem() / 2 ** 30 * 10) / 10,
    kernel: `${os.type()} ${os.release()} ${os.arch()}`,
    hypervisor: /^flags.*\bhypervisor\b/m.test(read('/proc/cpuinfo')),
    governor: read('/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor') || 'none',
    transparentHugepages: read('/sys/kernel/mm/transparent_hugepage/enabled').match(/\[(\w+)\]/)?.[1] ?? 'none',
    compiler: firstLine(process.env.CC || 'cc', ['--version']),
    node: process.version,
    loadAverage: os.loadavg()[0]
  }
}

/** Jiffies of all CPUs since boot: what others took from this machine is the stolen part. */
export function readSteal () {
  const fields = read('/proc/stat').split('\n')[0].split(/\s+/).slice(1, 9).map(Number)
  return { all: fields.reduce((sum, n) => sum + n, 0), stolen: fields[7] ?? 0 }
}
