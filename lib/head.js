'use strict'
// The head of a response: one place that writes it, for every form of answer.

const { STATUS_CODES } = require('node:http')
const { rangeFault, show } = require('./errors')

// RFC 9110 names these differently from older texts.
const RENAMED = { 413: 'Content Too Large', 422: 'Unprocessable Content' }

const NO_FIELDS = Object.freeze([])
const TEXT = Object.freeze(['Content-Type', 'text/plain; charset=utf-8'])
const HTML = Object.freeze(['Content-Type', 'text/html; charset=utf-8'])
const JSON_TYPE = Object.freeze(['Content-Type', 'application/json'])
const BYTES = Object.freeze(['Content-Type', 'application/octet-stream'])

function reasonOf (status) {
  return RENAMED[status] || STATUS_CODES[status] || 'Unknown'
}

function checkStatus (status) {
  if (Number.isInteger(status) && status >= 200 && status <= 599) return status
  throw rangeFault('ERR_MILLRACE_STATUS', `${show(status)} is not the status of a final answer.`)
}

// Whether the status forbids content (RFC 9110 15.3.5, 15.3.6, 15.4.5).
function hasNoContent (status) {
  return status === 204 || status === 304 || status === 205
}

// Whether the status has no Content-Length either.
function hasNoLength (status) {
  return status === 204 || status === 304
}

// Status line and fields, each with its CRLF: all but Content-Length, Date, Connection and the
// empty line, which the engine adds in this order. One char is one octet (latin1).
function headText (status, flat) {
  let text = `HTTP/1.1 ${status} ${reasonOf(status)}\r\n`
  for (let i = 0; i < flat.length; i += 2) text += `${flat[i]}: ${flat[i + 1]}\r\n`
  return text
}

exports.NO_FIELDS = NO_FIELDS
exports.TEXT = TEXT
exports.HTML = HTML
exports.JSON_TYPE = JSON_TYPE
exports.BYTES = BYTES
exports.reasonOf = reasonOf
exports.checkStatus = checkStatus
exports.hasNoContent = hasNoContent
exports.hasNoLength = hasNoLength
exports.headText = headText
