'use strict'
// Who a request is from, when it came by proxies that are trusted: Forwarded (RFC 7239) and
// X-Forwarded-For, -Proto, -Host.
//
// Each proxy adds at the right what it saw itself. So the list is walked from the right, and an
// element is believed only while the one who wrote it is trusted; what stands left of that anybody
// may have made up.

const { fault, show } = require('./errors')
const { checkKeys } = require('./keys')
const { rangesOf, isIn, octetsOf } = require('./listen')

const FIELDS = ['forwarded', 'x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host']

// ---- the option ----

function refuse (detail) {
  return fault('ERR_MILLRACE_OPTION', detail)
}

function fieldsOf (value) {
  if (value === undefined) return new Set(FIELDS)
  if (!Array.isArray(value) || value.length === 0) throw refuse(`trustProxy.headers is a list of header names, not ${show(value)}.`)
  const names = value.map((name) => String(name).toLowerCase())
  const unknown = names.findIndex((name) => !FIELDS.includes(name))
  if (unknown >= 0) throw refuse(`trustProxy.headers has ${FIELDS.join(', ')}; ${show(value[unknown])} is none of these.`)
  return new Set(names)
}

// { ranges, fields }, or null when nobody is trusted.
function trustOf (value) {
  if (value === undefined || value === null || value === false) return null
  if (value === true) throw refuse("trustProxy is a list of the proxies' addresses; true would let every client choose its own. For one on this machine, give 'loopback'.")
  if (typeof value === 'string' || Array.isArray(value)) return { ranges: rangesOf('trustProxy', value), fields: fieldsOf(undefined) }
  if (typeof value !== 'object') throw refuse(`trustProxy is a list of addresses, not ${show(value)}.`)
  checkKeys(value, ['from', 'headers'], 'option in trustProxy named', refuse)
  return { ranges: rangesOf('trustProxy.from', value.from), fields: fieldsOf(value.headers) }
}

// ---- values ----

// uri-host [":" port], RFC 9110 7.2
const HOST = /^(?:\[[0-9a-f:.]+\]|(?:[\w.~!$&'()*+;=-]|%[0-9a-f]{2})+)(?::[0-9]{0,5})?$/i

function hostOf (text) {
  return text !== undefined && HOST.test(text) ? text : undefined
}

function protocolOf (text) {
  const lower = text?.toLowerCase()
  return lower === 'http' || lower === 'https' ? lower : undefined
}

// In the form that req.ip has: the shortest of IPv6, IPv4 for an IPv4-mapped one.
function plainIp (text) {
  const octets = octetsOf(text)
  if (octets === null) return undefined
  return octets.length === 4 ? octets.join('.') : new URL(`http://[${text}]`).hostname.slice(1, -1)
}

const NODE = /^(?:\[([^\]]*)\]|([^:]*))(?::(?:([0-9]{1,5})|_[\w.-]+))?$/

// An address with or without a port, { ip, port }; undefined for anything else, also for 'unknown' and
// names that hide. IPv6 is in brackets, unless it may be bare.
function nodeOf (text, mayBeBare) {
  const bare = mayBeBare && text.includes(':') ? plainIp(text) : undefined
  if (bare !== undefined) return { ip: bare, port: 0 }
  const [, six, four, digits] = NODE.exec(text) ?? []
  const port = Number(digits ?? 0)
  if (port > 65535 || (six !== undefined && !six.includes(':'))) return undefined
  const ip = plainIp(six ?? four ?? '')
  return ip === undefined || (six === undefined && ip.includes(':')) ? undefined : { ip, port }
}

// ---- fields ----

// The lines of one field, in order.
function linesOf (raw, lower) {
  const lines = []
  for (let i = 0; i < raw.length; i += 2) {
    if (raw[i].length === lower.length && raw[i].toLowerCase() === lower) lines.push(raw[i + 1])
  }
  return lines
}

function trim (text) {
  return text.replace(/^[ \t]+|[ \t]+$/g, '')
}

function itemsOf (raw, lower) {
  return linesOf(raw, lower).flatMap((line) => line.split(',')).map(trim)
}

const PAIR = /[ \t]*([!#$%&'*+\-.^_`|~\w]+)=(?:([!#$%&'*+\-.^_`|~\w]+)|"((?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t \x21-\x7e\x80-\xff])*)")[ \t]*/y
const SEPARATOR = /[ \t]*([;,]|$)/y

// The elements of one line of Forwarded, as Maps; null when it is not what RFC 7239 says. A quote that
// somebody left open would take in what was written behind it, so such a line is nothing at all.
function elementsOf (line) {
  const elements = []
  let element = new Map()
  for (let at = 0; ;) {
    PAIR.lastIndex = at
    const pair = PAIR.exec(line)
    if (pair !== null) {
      const name = pair[1].toLowerCase()
      if (element.has(name)) return null
      element.set(name, pair[2] ?? pair[3].replace(/\\(.)/gs, '$1'))
      at = PAIR.lastIndex
    }
    SEPARATOR.lastIndex = at
    const separator = SEPARATOR.exec(line)
    if (separator === null) return null
    if (separator[1] !== ';') {
      if (element.size > 0) elements.push(element)
      element = new Map()
    }
    if (separator[1] === '') return elements
    at = SEPARATOR.lastIndex
  }
}

// Lines from the last to the first, elements likewise; ends with null at a line that is broken.
function * backwards (lines) {
  for (let i = lines.length - 1; i >= 0; i--) {
    const elements = elementsOf(lines[i])
    if (elements === null) {
      yield null
      return
    }
    yield * elements.reverse()
  }
}

// ---- the walk ----
// told: { ip, port, protocol, host }, at first of the peer, who is trusted.

function walkForwarded (told, lines, ranges) {
  for (const element of backwards(lines)) {
    if (element === null) return
    told.protocol = protocolOf(element.get('proto')) ?? told.protocol
    told.host = hostOf(element.get('host')) ?? told.host
    const node = element.has('for') ? nodeOf(element.get('for'), false) : undefined
    if (node === undefined) return
    Object.assign(told, node)
    if (!isIn(told.ip, ranges)) return
  }
}

// The item that belongs to hop `at` of `count`. A field that has not one item for each hop was set by
// the nearest proxy alone, or its last item was.
function itemAt (items, at, count) {
  return items.length === count && at < count ? items[at] : items.at(-1)
}

function walkX (told, { hops, protocols, hosts }, ranges) {
  let at = hops.length
  while (at > 0 && isIn(told.ip, ranges)) {
    const node = nodeOf(hops[at - 1], true)
    if (node === undefined) break
    Object.assign(told, node)
    at--
  }
  told.protocol = protocolOf(itemAt(protocols, at, hops.length))
  told.host = hostOf(itemAt(hosts, at, hops.length))
}

// { ip, port, protocol, host } of a request whose connection is from `peer` { ip, port }; protocol and
// host are undefined when nobody who is trusted told them. Where X-Forwarded-* is there, Forwarded is
// not looked at: proxies that set the former pass the latter on as it came from the client.
function resolveClient ({ ranges, fields }, peer, raw) {
  const told = { ip: peer.ip, port: peer.port, protocol: undefined, host: undefined }
  if (!isIn(peer.ip, ranges)) return told
  const read = (name) => fields.has(name) ? itemsOf(raw, name) : []
  const x = { hops: read('x-forwarded-for'), protocols: read('x-forwarded-proto'), hosts: read('x-forwarded-host') }
  if (x.hops.length + x.protocols.length + x.hosts.length > 0) walkX(told, x, ranges)
  else if (fields.has('forwarded')) walkForwarded(told, linesOf(raw, 'forwarded'), ranges)
  return told
}

exports.trustOf = trustOf
exports.resolveClient = resolveClient
