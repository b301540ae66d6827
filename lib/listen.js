'use strict'
// Where a server listens, and who is where: the options of both, sockets' files, systemd, ranges of
// addresses, and what is said when listening fails.

const fs = require('node:fs')
const net = require('node:net')
const { lookup } = require('node:dns/promises')
const { fault, show } = require('./errors')
const { checkKeys } = require('./keys')

const INT_MAX = 2147483647
const PATH_MAX = 107 // bytes
const LISTENERS_MAX = 16
const RANGES_MAX = 256
const FIRST_SYSTEMD_FD = 3

const PORT = [3000, 0, 65535, '0 for a free one']
const BACKLOG = [1024, 1, 65535, 'connections']
const MODE = [undefined, 0, 0o777, 'permissions, as 0o660']
const FD = [undefined, 0, INT_MAX, "or 'systemd'"]

const PLACES = ['port', 'host', 'hostname', 'path', 'fd', 'mode'] // which one
const MANNERS = ['backlog', 'ipv6Only', 'reusePort'] // how; above a list they hold for all of it
const WILDCARDS = new Set(['::', '0.0.0.0', '::0', '0:0:0:0:0:0:0:0'])

function refuse (detail) {
  return fault('ERR_MILLRACE_OPTION', detail)
}

// ---- options ----
// A listener is { kind: 'tcp', port, host, hasHost, ipv6Only, reusePort, backlog },
// { kind: 'unix', path, mode, backlog }, { kind: 'fd', fd } or { kind: 'systemd', name }.

// Environment variables are strings, so a port may be one.
function portOf (name, value, integer) {
  return integer(name, typeof value === 'string' && /^[0-9]{1,5}$/.test(value) ? Number(value) : value, PORT)
}

function hostOf ({ host, hostname }) {
  if (host !== undefined && hostname !== undefined && host !== hostname) throw refuse('host and hostname are the same option; give one.')
  const given = host ?? hostname
  if (given === undefined) return undefined
  if (typeof given === 'string' && given !== '' && !/[\s/\0]/.test(given)) return given.replace(/^\[(.*)\]$/, '$1')
  throw refuse(`host is a name or an address, not ${show(given)}.`)
}

function pathOf (name, path) {
  if (typeof path !== 'string' || path === '' || path === '\0' || path.includes('\0', 1)) {
    throw refuse(`${name} is the path of a socket, or \\0 and a name, not ${show(path)}.`)
  }
  if (Buffer.byteLength(path) > PATH_MAX) throw refuse(`${name} has ${Buffer.byteLength(path)} bytes; a socket's path has at most ${PATH_MAX}.`)
  if (path[0] === '\0' && process.platform !== 'linux') throw refuse(`${name} begins with \\0: names of sockets without a file are Linux's.`)
  return path
}

function flagOf (name, value) {
  if (value === undefined || typeof value === 'boolean') return value ?? false
  throw refuse(`${name} is true or false, not ${show(value)}.`)
}

function unixOf (given, prefix, backlog, integer) {
  const path = pathOf(`${prefix}path`, given.path)
  if (given.reusePort === true) throw refuse(`${prefix}reusePort is for ports; a path has one server.`)
  if (given.mode !== undefined && path[0] === '\0') throw refuse(`${prefix}mode is for sockets with a file.`)
  return { kind: 'unix', path, mode: integer(`${prefix}mode`, given.mode, MODE), backlog }
}

function fdOf (name, fd, integer) {
  const systemd = typeof fd === 'string' ? /^systemd(?::(.+))?$/s.exec(fd) : null
  if (systemd !== null) return { kind: 'systemd', name: systemd[1] ?? null }
  return { kind: 'fd', fd: integer(name, fd, FD) }
}

function listenerOf (given, prefix, integer) {
  const backlog = integer(`${prefix}backlog`, given.backlog, BACKLOG)
  const ipv6Only = flagOf(`${prefix}ipv6Only`, given.ipv6Only)
  const reusePort = flagOf(`${prefix}reusePort`, given.reusePort)
  const isTcp = ['port', 'host', 'hostname'].some((name) => given[name] !== undefined)
  if (isTcp + (given.path !== undefined) + (given.fd !== undefined) > 1) throw refuse(`${prefix}port (with host), ${prefix}path and ${prefix}fd are three ways to listen; give one.`)
  if (given.mode !== undefined && given.path === undefined) throw refuse(`${prefix}mode goes with a path.`)
  if (given.path !== undefined) return unixOf(given, prefix, backlog, integer)
  if (given.fd !== undefined) return fdOf(`${prefix}fd`, given.fd, integer)
  const host = hostOf(given)
  return {
    kind: 'tcp',
    port: portOf(`${prefix}port`, given.port, integer),
    host: host ?? '::', // dual-stack; without IPv6, '0.0.0.0'
    hasHost: host !== undefined,
    ipv6Only,
    reusePort,
    backlog
  }
}

function listenersOf (options, integer) {
  const { listen } = options
  const list = `listen is a list of 1 to ${LISTENERS_MAX} places, such as { port, host } or { path }`
  if (listen === undefined) return [listenerOf(options, '', integer)]
  if (!Array.isArray(listen)) throw refuse(`${list}, not ${show(listen)}. For one port, did you mean port?`)
  if (listen.length === 0 || listen.length > LISTENERS_MAX) throw refuse(`${list}; ${listen.length} are given.`)
  for (const name of PLACES) {
    if (options[name] !== undefined) throw refuse(`${name} and listen are both given; put it into the list.`)
  }
  const manners = Object.fromEntries(MANNERS.map((name) => [name, options[name]]))
  return listen.map((given, i) => {
    if (given === null || typeof given !== 'object') throw refuse(`listen[${i}] is an object, not ${show(given)}.`)
    checkKeys(given, [...PLACES, ...MANNERS], `option in listen[${i}] named`, refuse)
    if (PLACES.every((name) => given[name] === undefined)) throw refuse(`listen[${i}] names no port, path or fd.`)
    const isPath = given.path !== undefined
    return listenerOf({ ...manners, ...(isPath && { reusePort: undefined }), ...given }, `listen[${i}].`, integer)
  })
}

// ---- systemd ----

// The descriptors that systemd passed to this process (sd_listen_fds(3)), or those of one name.
function systemdFds (name) {
  const { LISTEN_FDS, LISTEN_PID, LISTEN_FDNAMES } = process.env
  const absent = (detail) => fault('ERR_MILLRACE_LISTEN', `There are no sockets of systemd: ${detail}.`)
  if (LISTEN_FDS === undefined || LISTEN_PID === undefined) throw absent(`${LISTEN_FDS === undefined ? 'LISTEN_FDS' : 'LISTEN_PID'} is not set`)
  if (LISTEN_PID !== String(process.pid)) throw absent(`LISTEN_PID is ${show(LISTEN_PID)}, and this process is ${process.pid}`)
  const count = /^[1-9][0-9]{0,3}$/.test(LISTEN_FDS) ? Number(LISTEN_FDS) : 0
  if (count === 0) throw absent(`LISTEN_FDS is ${show(LISTEN_FDS)}`)
  const names = (LISTEN_FDNAMES ?? '').split(':')
  const fds = Array.from({ length: count }, (_, i) => FIRST_SYSTEMD_FD + i)
  if (name === null) return fds
  const found = fds.filter((_, i) => names[i] === name)
  if (found.length === 0) throw absent(`none is named ${show(name)} in LISTEN_FDNAMES (${show(LISTEN_FDNAMES ?? '')})`)
  return found
}

// With 'systemd' replaced by its descriptors.
function expand (listeners) {
  const all = listeners.flatMap((each) => each.kind === 'systemd' ? systemdFds(each.name).map((fd) => ({ kind: 'fd', fd })) : [each])
  if (all.length > LISTENERS_MAX) throw fault('ERR_MILLRACE_LISTEN', `There are ${all.length} sockets to listen on, and at most ${LISTENERS_MAX} are possible.`)
  const fds = all.filter(({ kind }) => kind === 'fd').map(({ fd }) => fd)
  const twice = fds.find((fd, i) => fds.indexOf(fd) !== i)
  if (twice !== undefined) throw refuse(`Descriptor ${twice} is given twice.`)
  return all
}

// ---- sockets ----

// The numeric addresses to try in turn: the next where this machine does not have the first's kind.
async function addressesOf ({ host, hasHost, ipv6Only }) {
  if (!hasHost) return ipv6Only ? ['::'] : ['::', '0.0.0.0']
  if (net.isIP(host) !== 0) return [host]
  return [(await lookup(host)).address]
}

function coded (code) {
  return Object.assign(new Error(`listen ${code}`), { code })
}

// Whether somebody accepts on a socket's file; undefined when it is gone meanwhile.
function isAnswered (path) {
  return new Promise((resolve) => {
    const socket = net.connect({ path })
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', ({ code }) => resolve(code === 'ENOENT' ? undefined : code !== 'ECONNREFUSED'))
  })
}

function fileOf (path) {
  try {
    return fs.lstatSync(path)
  } catch (err) {
    if (err.code === 'ENOENT') return null
    throw err
  }
}

// For a path that is taken: removes the file of a server that is no more. Returns whether the path is
// free now. Throws ENOTSOCK for anything that is not a socket, and leaves it alone.
async function clearStale (path) {
  const before = fileOf(path)
  if (before === null) return true
  if (!before.isSocket()) throw coded('ENOTSOCK')
  const answered = await isAnswered(path)
  if (answered !== false) return answered === undefined
  const now = fileOf(path)
  if (now === null) return true
  if (now.ino !== before.ino || now.dev !== before.dev) return false // somebody was faster
  fs.unlinkSync(path)
  return true
}

function isAbstract ({ path }) {
  return path[0] === '\0'
}

function urlOf (host, port, ipv6Only) {
  const isIPv6 = host.includes(':')
  if (WILDCARDS.has(host)) return isIPv6 && ipv6Only ? `http://[::1]:${port}` : `http://127.0.0.1:${port}`
  return isIPv6 ? `http://[${host}]:${port}` : `http://${host}:${port}`
}

// One of server.addresses.
function tcpAddress (host, port, ipv6Only = false) {
  return Object.freeze({ url: urlOf(host, port, ipv6Only), host, port, path: null })
}

function unixAddress (path) {
  const shown = path.replace(/^\0/, '@')
  return Object.freeze({ url: `unix:${encodeURI(shown).replace(/[?#]/g, encodeURIComponent)}`, host: '', port: 0, path })
}

// ---- failures ----

const PORT_TEXTS = {
  EADDRINUSE: 'is taken by another server',
  EACCES: 'may not be opened by this process',
  EADDRNOTAVAIL: 'cannot be listened on, since this machine does not have that address',
  EAFNOSUPPORT: 'cannot be listened on, since this machine has no such kind of address',
  ENOTFOUND: 'cannot be listened on, since that name has no address',
  ENOPROTOOPT: 'cannot be listened on, since this system does not let ports be shared'
}
const PATH_TEXTS = {
  EADDRINUSE: 'is in use by another server',
  EACCES: 'may not be made by this process',
  EPERM: 'may not be made by this process',
  EROFS: 'cannot be made on a file system that is read-only',
  ENOENT: 'cannot be made, since its folder does not exist',
  ENOTDIR: 'cannot be made, since what should be its folder is none',
  ENOTSOCK: 'cannot be made, since there is something else of that name, which is no socket and is left alone',
  ENAMETOOLONG: `cannot be made, since its path has more than ${PATH_MAX} bytes`
}
const FD_TEXTS = {
  EBADF: 'is not open',
  ENOTSOCK: 'is not a socket',
  EPROTOTYPE: 'is not a TCP or unix stream socket',
  EINVAL: 'is a socket that does not listen'
}
const CODES = {
  tcp: { EADDRINUSE: 'ERR_MILLRACE_PORT_IN_USE', EACCES: 'ERR_MILLRACE_PORT_DENIED' },
  unix: { EADDRINUSE: 'ERR_MILLRACE_SOCKET_IN_USE', EACCES: 'ERR_MILLRACE_SOCKET_DENIED', EPERM: 'ERR_MILLRACE_SOCKET_DENIED' },
  fd: {}
}

function wordsOf (listener, code) {
  const other = `cannot be listened on (${code})`
  switch (listener.kind) {
    case 'unix': return `Socket ${listener.path.replace(/^\0/, '@')} ${PATH_TEXTS[code] ?? other}.`
    case 'fd': return `Descriptor ${listener.fd} ${FD_TEXTS[code] ?? other}.`
    default: return `Port ${listener.port} on ${listener.host} ${PORT_TEXTS[code] ?? other}.`
  }
}

// The sentence for a failure to listen; errors that are not the system's stay as they are.
function listenFault (err, listener) {
  if (typeof err?.code !== 'string' || err.code.startsWith('ERR_')) return err
  return fault(CODES[listener.kind][err.code] ?? 'ERR_MILLRACE_LISTEN', wordsOf(listener, err.code), err)
}

// ---- ranges of addresses ----
// { family: 4 | 6 | 0, bits, octets }; family 0 stands for clients of unix sockets.

const NAMED = {
  loopback: ['127.0.0.0/8', '::1/128'],
  linklocal: ['169.254.0.0/16', 'fe80::/10'],
  uniquelocal: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7']
}

function groupsOf (text) {
  return text === '' ? [] : text.split(':').flatMap((group) => {
    if (!group.includes('.')) return [parseInt(group, 16)]
    const [a, b, c, d] = group.split('.').map(Number)
    return [a << 8 | b, c << 8 | d]
  })
}

// The octets of a numeric address, four of an IPv4-mapped one; null for any other text.
function octetsOf (text) {
  if (net.isIPv4(text)) return text.split('.').map(Number)
  if (!net.isIPv6(text) || text.includes('%')) return null
  const [left, right] = text.split('::').map(groupsOf)
  const groups = right === undefined ? left : [...left, ...new Array(8 - left.length - right.length).fill(0), ...right]
  const octets = groups.flatMap((group) => [group >> 8, group & 255])
  const isMapped = groups[5] === 0xffff && groups.slice(0, 5).every((group) => group === 0)
  return isMapped ? octets.slice(12) : octets
}

function rangeOf (text) {
  const [address, width, ...rest] = text.split('/')
  const octets = octetsOf(address)
  if (octets === null || rest.length > 0 || (width !== undefined && !/^(?:0|[1-9][0-9]{0,2})$/.test(width))) return null
  const family = octets.length === 4 ? 4 : 6
  const most = octets.length * 8
  const isMapped = family === 4 && address.includes(':')
  const bits = width === undefined ? most : Number(width) - (isMapped ? 96 : 0)
  return bits >= 0 && bits <= most ? { family, bits, octets } : null
}

// From an option: names, addresses, CIDRs; one of them alone counts as a list of one.
function rangesOf (option, value) {
  const texts = typeof value === 'string' ? [value] : value
  const what = `addresses, CIDRs, 'loopback', 'linklocal', 'uniquelocal' and 'unix'`
  if (!Array.isArray(texts) || texts.length === 0) throw refuse(`${option} is a list of ${what}, not ${show(value)}.`)
  const ranges = texts.flatMap((text) => {
    if (text === 'unix') return [{ family: 0, bits: 0, octets: [] }]
    const found = typeof text !== 'string' ? [null] : (Object.hasOwn(NAMED, text) ? NAMED[text] : [text]).map(rangeOf)
    if (found.includes(null)) throw refuse(`${option} is a list of ${what}; ${show(text)} is none of these.`)
    return found
  })
  if (ranges.length > RANGES_MAX) throw refuse(`${option} has at most ${RANGES_MAX} entries.`)
  return ranges
}

function hasPrefix (octets, prefix, bits) {
  const whole = bits >> 3
  for (let i = 0; i < whole; i++) if (octets[i] !== prefix[i]) return false
  const rest = bits & 7
  return rest === 0 || (octets[whole] ^ prefix[whole]) >> 8 - rest === 0
}

// Whether an address is in one of the ranges; '' is that of a unix socket.
function isIn (ip, ranges) {
  if (ip === '') return ranges.some(({ family }) => family === 0)
  const octets = octetsOf(ip)
  if (octets === null) return false
  const own = octets.length === 4 ? 4 : 6
  return ranges.some(({ family, bits, octets: prefix }) => family === own && hasPrefix(octets, prefix, bits))
}

// For the core: 18 octets each.
function packRanges (ranges) {
  const packed = Buffer.alloc(ranges.length * 18)
  ranges.forEach(({ family, bits, octets }, i) => packed.set([family, bits, ...octets], i * 18))
  return packed
}

exports.listenersOf = listenersOf
exports.expand = expand
exports.addressesOf = addressesOf
exports.clearStale = clearStale
exports.isAbstract = isAbstract
exports.tcpAddress = tcpAddress
exports.unixAddress = unixAddress
exports.listenFault = listenFault
exports.octetsOf = octetsOf
exports.rangesOf = rangesOf
exports.isIn = isIn
exports.packRanges = packRanges
exports.PLACES = [...PLACES, ...MANNERS]
