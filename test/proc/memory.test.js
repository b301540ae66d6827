'use strict'
// Memory during transfers and after aborts, in small; tools/soak.mjs does the same at length.

const { test } = require('node:test')
const assert = require('node:assert')
const { scenarios, SHORT } = require('../soak/scenarios')

const skip = process.platform !== 'linux' && 'needs /proc'
const TITLES = {
  upload: 'an upload to a slow handler stays in bounded memory, and every octet arrives',
  download: 'a download by a slow client stays in bounded memory, and every octet arrives',
  aborts: 'clients that go in the middle of a body or an answer leave nothing behind'
}

for (const [name, title] of Object.entries(TITLES)) {
  test(title, { skip }, async (t) => {
    const { figures, failures } = await scenarios[name](SHORT, undefined)
    t.diagnostic(figures.join(', '))
    assert.deepStrictEqual(failures, [])
  })
}
