'use strict'
// Unknown names are refused everywhere in the same way, with the known one that was probably meant.

// How many single edits turn one word into the other.
function distance (a, b) {
  let above = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const swap = above[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1)
      row.push(Math.min(swap, above[j] + 1, row[j - 1] + 1))
    }
    above = row
  }
  return above[b.length]
}

// The known name nearest to an unknown one, or undefined when none is near.
function nearest (name, known) {
  const lower = name.toLowerCase()
  let best
  let least = Math.max(2, Math.floor(name.length / 3)) + 1
  for (const candidate of known) {
    const far = distance(lower, candidate.toLowerCase())
    if (far < least && far < candidate.length) {
      least = far
      best = candidate
    }
  }
  return best
}

function hint (name, known) {
  const near = nearest(name, known)
  return near === undefined ? '' : ` Did you mean ${near}?`
}

// Throws what `refuse(text)` makes when the object has a key that is not among the known ones.
function checkKeys (object, known, what, refuse) {
  for (const key of Object.keys(object)) {
    if (!known.includes(key)) throw refuse(`There is no ${what} ${key}.${hint(key, known)}`)
  }
}

exports.hint = hint
exports.checkKeys = checkKeys
