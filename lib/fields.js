'use strict'
// The fields of one response, checked as they come: names, values, and what frames the message.

const { fault, show } = require('./errors')

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const BAD_VALUE = /[^\t\x20-\x7e\x80-\xff]/
const DIGITS = /^[0-9]{1,15}$/

function checkName (name) {
  if (typeof name === 'string' && TOKEN.test(name)) return name
  throw fault('ERR_MILLRACE_HEADER', `${show(name)} is not a header name.`)
}

function checkValue (name, value) {
  const text = typeof value === 'number' ? String(value) : value
  if (typeof text === 'string' && !BAD_VALUE.test(text)) return text
  throw fault('ERR_MILLRACE_HEADER', `${show(value)} is not a value for the header ${name}.`)
}

function closes (value) {
  return /(?:^|,)[ \t]*close[ \t]*(?:,|$)/i.test(value)
}

class Fields {
  constructor () {
    this.flat = [] // [name, value, ...] in the order set
    this.length = -1 // Content-Length as set; -1: not set
    this.close = false
    this.hasDate = false
    this.hasType = false
  }

  // Replaces all lines of the name; an array makes one line of each item. The first line keeps its
  // place, so that setting a header twice does not reorder the head.
  set (name, value) {
    const lower = checkName(name).toLowerCase()
    const values = Array.isArray(value) ? value.map((item) => checkValue(name, item)) : [checkValue(name, value)]
    if (this.#takeFraming(lower, values)) return
    const at = this.#remove(lower)
    this.#note(lower, values.length > 0)
    this.flat.splice(at, 0, ...values.flatMap((item) => [name, item]))
  }

  append (name, value) {
    const lower = checkName(name).toLowerCase()
    const text = checkValue(name, value)
    if (this.#takeFraming(lower, [text])) return
    this.#note(lower, true)
    this.flat.push(name, text)
  }

  // Headers as a program writes them: an object, or pairs (an array of them, a Map, web Headers).
  apply (headers) {
    if (headers === undefined) return
    if (headers === null || typeof headers !== 'object') {
      throw fault('ERR_MILLRACE_HEADER', `Headers are an object or a list of pairs, not ${show(headers)}.`, undefined, '')
    }
    if (typeof headers[Symbol.iterator] !== 'function') {
      for (const name of Object.keys(headers)) this.set(name, headers[name])
      return
    }
    for (const pair of headers) {
      if (!Array.isArray(pair) || pair.length !== 2) {
        throw fault('ERR_MILLRACE_HEADER', `${show(pair)} is not a pair of name and value.`, undefined, '')
      }
      this.append(pair[0], pair[1])
    }
  }

  // This set's fields on top of others: same names replace, new ones follow.
  over (base) {
    const merged = new Fields()
    Object.assign(merged, base, { flat: base.flat.slice() })
    const names = new Map()
    for (let i = 0; i < this.flat.length; i += 2) {
      const lower = this.flat[i].toLowerCase()
      if (!names.has(lower)) names.set(lower, { name: this.flat[i], values: [] })
      names.get(lower).values.push(this.flat[i + 1])
    }
    for (const { name, values } of names.values()) merged.set(name, values)
    if (this.length >= 0) merged.length = this.length
    merged.close = merged.close || this.close
    return merged
  }

  // Fields that say how the message is framed are the engine's to write; true when taken.
  #takeFraming (lower, values) {
    switch (lower) {
      case 'transfer-encoding':
        throw fault('ERR_MILLRACE_HEADER', 'Transfer-Encoding is the server\'s to set.', undefined, 'Leave it out: what is written in pieces is chunked where that is possible.')
      case 'content-length':
        if (values.length !== 1 || !DIGITS.test(values[0])) {
          throw fault('ERR_MILLRACE_LENGTH', `${show(values.join(', '))} is not a Content-Length.`)
        }
        this.length = Number(values[0])
        return true
      case 'connection':
        this.close = values.some(closes)
        return true
      default:
        return false
    }
  }

  #note (lower, isThere) {
    if (lower === 'content-type') this.hasType = isThere
    else if (lower === 'date') this.hasDate = isThere
  }

  // Returns where the first removed line was, or the end.
  #remove (lower) {
    const { flat } = this
    let first = -1
    for (let i = 0; i < flat.length;) {
      if (flat[i].length !== lower.length || flat[i].toLowerCase() !== lower) {
        i += 2
        continue
      }
      if (first < 0) first = i
      flat.splice(i, 2)
    }
    return first < 0 ? flat.length : first
  }
}

exports.Fields = Fields
exports.closes = closes
exports.checkName = checkName
exports.checkValue = checkValue
