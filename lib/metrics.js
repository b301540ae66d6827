'use strict'
// A program's own metrics. Each series has slots in an array of doubles that this thread alone writes
// (src/engine/series.h has their layout); whoever is asked for the metrics adds up the threads' arrays.
// Until this thread is in a fleet the values are kept aside.

const { fault, show } = require('./errors')
const { checkKeys } = require('./keys')

const KIND = { counter: 0, gauge: 1, histogram: 2 }
const MERGE = { sum: 0, max: 1, thread: 2 }
const NAME = /^(?!millrace_)[a-zA-Z_:][a-zA-Z0-9_:]{0,127}$/
const LABEL = /^(?!__|le$|thread$)[a-zA-Z_][a-zA-Z0-9_]{0,127}$/
const LABELS_MAX = 8
const SERIES_MAX = 1000 // of this thread; the fleet has the same bound
const VALUE_BYTES = 256
const BOUNDS_MAX = 32
const BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] // seconds, say

let home = null // { binding, member } of the fleet
let shared = null // its Float64Array
const families = new Map() // name -> Family
const all = [] // every Series

function refuse (detail) {
  return fault('ERR_MILLRACE_METRIC', detail)
}

class Series {
  constructor (family, labels) {
    this.family = family
    this.labels = labels
    this.values = new Float64Array(family.slots)
    this.at = 0
  }

  // Moves to the fleet's memory. One that the fleet does not take stays here.
  settle () {
    const { kind, merge, name, help, labelNames, bounds } = this.family
    const { binding, member } = home
    const at = binding.seriesDefine(member, KIND[kind], MERGE[merge], name, help, labelNames, this.labels, bounds)
    shared ??= binding.seriesValues(member)
    const before = this.values.subarray(this.at, this.at + this.family.slots)
    shared.set(before, at)
    this.values = shared
    this.at = at
  }
}

class Counter extends Series {
  inc (more = 1) {
    if (!(more >= 0 && more < Infinity)) throw refuse(`A counter goes up by a number from 0, not by ${show(more)}.`)
    this.values[this.at] += more
  }
}

class Gauge extends Series {
  set (value) {
    if (typeof value !== 'number') throw refuse(`A gauge is set to a number, not to ${show(value)}.`)
    this.values[this.at] = value
    this.values[this.at + 1] = 1
  }

  inc (more = 1) {
    this.set(this.values[this.at] + more)
  }

  dec (less = 1) {
    this.set(this.values[this.at] - less)
  }
}

class Histogram extends Series {
  observe (value) {
    if (typeof value !== 'number' || !Number.isFinite(value)) throw refuse(`A histogram takes finite numbers, not ${show(value)}.`)
    const { bounds } = this.family
    let i = 0
    while (i < bounds.length && value > bounds[i]) i++
    this.values[this.at + i]++
    const sum = this.at + bounds.length + 1
    if (value < 0) this.values[sum + 1] -= value
    else this.values[sum] += value
  }
}

const CLASS = { counter: Counter, gauge: Gauge, histogram: Histogram }

class Family {
  #children = new Map()

  constructor (kind, name, help, { labels: labelNames = [], merge = 'sum', bounds = BOUNDS }) {
    this.kind = kind
    this.name = name
    this.help = help
    this.labelNames = labelNames
    this.merge = merge
    this.bounds = kind === 'histogram' ? bounds : []
    this.slots = kind === 'counter' ? 1 : kind === 'gauge' ? 2 : bounds.length + 3
  }

  // The series of these values, made at first use.
  labels (given) {
    if (given === null || typeof given !== 'object') throw refuse(`The labels of ${this.name} are an object, not ${show(given)}.`)
    checkKeys(given, this.labelNames, `label of ${this.name} named`, refuse)
    const values = this.labelNames.map((label) => String(given[label] ?? ''))
    const key = JSON.stringify(values)
    return this.#children.get(key) ?? this.#make(key, values)
  }

  #make (key, values) {
    if (all.length >= SERIES_MAX) throw refuse(`There are ${SERIES_MAX} series of metrics already; labels are for few values.`)
    for (const value of values) {
      if (Buffer.byteLength(value) > VALUE_BYTES) throw refuse(`A label of ${this.name} has more than ${VALUE_BYTES} bytes.`)
    }
    const series = new CLASS[this.kind](this, values)
    if (home !== null) series.settle()
    all.push(series)
    this.#children.set(key, series)
    return series
  }

  #only () {
    if (this.labelNames.length > 0) throw refuse(`${this.name} has labels: use .labels({ ... }).`)
    return this.labels({})
  }

  inc (more) { this.#only().inc(more) }
  dec (less) { this.#only().dec(less) }
  set (value) { this.#only().set(value) }
  observe (value) { this.#only().observe(value) }
}

function checkDefinition (kind, name, help, options) {
  if (typeof name !== 'string' || !NAME.test(name)) throw refuse(`${show(name)} is no name for a metric.`)
  if (typeof help !== 'string' || Buffer.byteLength(help) > 1024) throw refuse(`The help of ${name} is a text of at most 1024 bytes.`)
  const keys = ['labels', ...(kind === 'gauge' ? ['merge'] : []), ...(kind === 'histogram' ? ['bounds'] : [])]
  checkKeys(options, keys, `option of a ${kind} named`, refuse)
  const { labels = [], merge = 'sum', bounds = BOUNDS } = options
  const isLabels = Array.isArray(labels) && labels.length <= LABELS_MAX && new Set(labels).size === labels.length &&
    labels.every((label) => typeof label === 'string' && LABEL.test(label))
  if (!isLabels) throw refuse(`The labels of ${name} are at most ${LABELS_MAX} different names, not ${show(labels)}.`)
  if (!Object.hasOwn(MERGE, merge)) throw refuse(`merge is 'sum', 'max' or 'thread', not ${show(merge)}.`)
  const isBounds = Array.isArray(bounds) && bounds.length >= 1 && bounds.length <= BOUNDS_MAX &&
    bounds.every((bound, i) => Number.isFinite(bound) && (i === 0 || bound > bounds[i - 1]))
  if (!isBounds) throw refuse(`The bounds of ${name} are 1 to ${BOUNDS_MAX} rising numbers, not ${show(bounds)}.`)
}

// The same definition again is the same metric.
function define (kind, name, help = '', options = {}) {
  checkDefinition(kind, name, help, options)
  const family = new Family(kind, name, help, options)
  const there = families.get(name)
  if (there === undefined) {
    families.set(name, family)
    return family
  }
  const shape = ({ kind, labelNames, merge, bounds }) => JSON.stringify([kind, labelNames, merge, bounds])
  if (shape(there) !== shape(family)) throw refuse(`There is another metric named ${name} already.`)
  return there
}

// This thread is in a fleet: what it counts from now on is seen, and what it has counted.
function settleMetrics (binding, member) {
  home = { binding, member }
  shared = null
  for (const series of all) {
    try {
      series.settle()
    } catch (err) {
      console.error('millrace: a metric is not shown:', err)
    }
  }
}

// The fleet of this member has ended; values are kept aside again.
function unsettleMetrics (member) {
  if (home?.member !== member) return
  home = null
  shared = null
  for (const series of all) {
    series.values = series.values.slice(series.at, series.at + series.family.slots)
    series.at = 0
  }
}

exports.metrics = {
  counter: (name, help, options) => define('counter', name, help, options),
  gauge: (name, help, options) => define('gauge', name, help, options),
  histogram: (name, help, options) => define('histogram', name, help, options)
}
exports.settleMetrics = settleMetrics
exports.unsettleMetrics = unsettleMetrics
