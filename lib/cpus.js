'use strict'
// How many threads 'auto' means: the CPUs that this process may use, by its affinity mask and by the
// quota of its control group (cgroups(7): cpu.max, or cpu.cfs_quota_us of version 1), rounded up.

const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')

const MOST = 64

function read (file) {
  try {
    return fs.readFileSync(file, 'utf8').trim()
  } catch {
    return null
  }
}

// CPUs by cpu.max ("200000 100000", or "max 100000"); Infinity without a quota.
function quotaOfV2 (text) {
  const [quota, period] = (text ?? '').split(' ').map(Number)
  return quota > 0 && period > 0 ? quota / period : Infinity
}

function quotaOfV1 (folder) {
  const quota = Number(read(path.join(folder, 'cpu.cfs_quota_us')))
  const period = Number(read(path.join(folder, 'cpu.cfs_period_us')))
  return quota > 0 && period > 0 ? quota / period : Infinity
}

// A group's quota holds for all groups below it.
function leastOf (root, group, quotaOf) {
  let least = Infinity
  for (let at = group; ; at = path.dirname(at)) {
    least = Math.min(least, quotaOf(path.join(root, at)))
    if (at === '/' || at === '.') return least
  }
}

// root is where the system's files are: '/' but in tests.
function quota (root = '/') {
  let least = Infinity
  for (const line of (read(path.join(root, 'proc/self/cgroup')) ?? '').split('\n')) {
    const [, controllers = '', group = '/'] = /^\d+:([^:]*):(.*)$/.exec(line) ?? []
    const mount = path.join(root, 'sys/fs/cgroup')
    if (line.startsWith('0::')) {
      least = Math.min(least, leastOf(mount, group, (folder) => quotaOfV2(read(path.join(folder, 'cpu.max')))))
    } else if (controllers.split(',').includes('cpu')) {
      for (const name of ['cpu', 'cpu,cpuacct']) least = Math.min(least, leastOf(path.join(mount, name), group, quotaOfV1))
    }
  }
  return least
}

// An integer from 1 to 64.
function threadsOfMachine (root) {
  const cpus = os.availableParallelism?.() ?? os.cpus().length // both honour the affinity mask on Linux, by libuv
  return Math.max(1, Math.min(MOST, cpus, Math.ceil(quota(root))))
}

exports.threadsOfMachine = threadsOfMachine
exports.THREADS_MAX = MOST
