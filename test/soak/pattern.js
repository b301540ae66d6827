'use strict'
// Octets that both ends know by their position. The period is a prime, so that content that was lost,
// repeated or swapped in pieces of any usual size does not look right further on.

const PERIOD = 1048573
const block = Buffer.allocUnsafeSlow(PERIOD)
let state = 1
for (let i = 0; i < PERIOD; i++) {
  state = Math.imul(state, 1664525) + 1013904223 >>> 0
  block[i] = state >>> 24
}

// The pieces of `total` octets, each at most `size` long. They are parts of one block: making them
// costs no memory that would be taken for the server's.
function * pieces (total, size) {
  for (let at = 0; at < total;) {
    const from = at % PERIOD
    const length = Math.min(size, total - at, PERIOD - from)
    yield block.subarray(from, from + length)
    at += length
  }
}

// Whether `chunk` is what belongs at this position.
function isRight (chunk, at) {
  for (let i = 0; i < chunk.length;) {
    const from = (at + i) % PERIOD
    const length = Math.min(chunk.length - i, PERIOD - from)
    if (chunk.compare(block, from, from + length, i, i + length) !== 0) return false
    i += length
  }
  return true
}

module.exports = { pieces, isRight }
