'use strict'
// Several field lines of one name made one value, by the rules of node:http.

const { kRawHeaders } = require('./symbols')

// Of these only the first line counts.
const SINGLE = new Set([
  'age', 'authorization', 'content-length', 'content-type', 'etag', 'expires', 'from', 'host',
  'if-modified-since', 'if-unmodified-since', 'last-modified', 'location', 'max-forwards',
  'proxy-authorization', 'referer', 'retry-after', 'server', 'user-agent'
])

function glueOf (lower) {
  return lower === 'cookie' ? '; ' : ', '
}

// One field's value by its lower-case name, undefined when it is not there.
function fieldValue (raw, lower) {
  let value
  for (let i = 0; i < raw.length; i += 2) {
    if (raw[i].length !== lower.length || raw[i].toLowerCase() !== lower) continue
    if (value === undefined) value = raw[i + 1]
    else if (!SINGLE.has(lower)) value += glueOf(lower) + raw[i + 1]
  }
  return value
}

function put (object, name, value) {
  // A plain assignment to this name would change the prototype instead.
  if (name === '__proto__') Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true })
  else object[name] = value
}

function addField (object, lower, value) {
  const old = Object.hasOwn(object, lower) ? object[lower] : undefined
  if (lower === 'set-cookie') {
    if (old === undefined) object[lower] = [value]
    else old.push(value)
  } else if (old === undefined) {
    put(object, lower, value)
  } else if (!SINGLE.has(lower)) {
    put(object, lower, old + glueOf(lower) + value)
  }
}

function headersOf (raw) {
  const headers = {}
  for (let i = 0; i < raw.length; i += 2) addField(headers, raw[i].toLowerCase(), raw[i + 1])
  return headers
}

// A request's field, without the public method, which a program may have replaced.
function requestField (req, lower) {
  return fieldValue(req[kRawHeaders](), lower)
}

exports.fieldValue = fieldValue
exports.headersOf = headersOf
exports.put = put
exports.requestField = requestField
