'use strict'
// What can be the content of an answer without waiting for it.

const { types } = require('node:util')
const { fault, show } = require('./errors')

function isBytes (value) {
  return ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)
}

// The bytes themselves, not a copy; but of memory that can shrink or change under the engine, a copy.
function toBytes (value) {
  const isView = ArrayBuffer.isView(value)
  const memory = isView ? value.buffer : value
  if (value.byteLength === 0 && isDetached(memory)) throw fault('ERR_MILLRACE_BODY_TYPE', 'The memory of these bytes was transferred away.', undefined, '')
  const bytes = isView ? viewOf(value) : new Uint8Array(value)
  return memory.resizable || types.isSharedArrayBuffer(memory) ? Uint8Array.from(bytes) : bytes
}

function isDetached (memory) {
  if (types.isSharedArrayBuffer(memory)) return false
  try {
    return new Uint8Array(memory) === null // throws when it is
  } catch {
    return true
  }
}

function viewOf (view) {
  return view instanceof Uint8Array ? view : new Uint8Array(view.buffer, view.byteOffset, view.byteLength)
}

// Whether an object means its JSON. What is waited for is not, nor what JSON would show as empty
// (a Map, a Blob, an Error).
function isJson (value) {
  if (typeof value.then === 'function' || typeof value[Symbol.asyncIterator] === 'function') return false
  const proto = Object.getPrototypeOf(value)
  if (proto === Object.prototype || proto === null || Array.isArray(value)) return true
  return typeof value.toJSON === 'function' || Object.prototype.toString.call(value) === '[object Object]'
}

// A circle, a bigint; anything else that a toJSON() throws is the program's own.
function stringify (value) {
  try {
    return JSON.stringify(value)
  } catch (err) {
    if (!types.isNativeError(err) || err.name !== 'TypeError') throw err
    throw fault('ERR_MILLRACE_BODY_TYPE', `JSON cannot express ${show(value)}: ${err.message.split('\n', 1)[0]}.`, err, '')
  }
}

function toJson (value) {
  const text = stringify(value)
  if (text !== undefined) return text
  throw fault('ERR_MILLRACE_BODY_TYPE', `JSON cannot express ${show(value)}.`, undefined, '')
}

exports.isBytes = isBytes
exports.toBytes = toBytes
exports.isJson = isJson
exports.toJson = toJson
