'use strict'
// The snippets of docs/fleet.md, and that of the README with threads: each does what it shows.

const { test } = require('node:test')
const assert = require('node:assert')
const fs = require('node:fs')
const path = require('node:path')
const { spawnSync } = require('node:child_process')

const ROOT = path.join(__dirname, '..', '..')
const snippets = (file) => [...fs.readFileSync(path.join(ROOT, file), 'utf8').matchAll(/^```js\n([^]*?)^```$/gm)].map(([, code]) => code)
const [fleet, messages, own] = snippets('docs/fleet.md')
const inReadme = snippets('README.md').filter((code) => /^\s*threads:/m.test(code))

function run (t, code, behind) {
  const file = path.join(__dirname, `.snippet-${process.pid}.mjs`)
  t.after(() => fs.rmSync(file, { force: true }))
  fs.writeFileSync(file, `${code.replace(/\bport: 3000\b/, "port: 0, host: '127.0.0.1'")}\n${behind}`)
  const { status, stdout, stderr } = spawnSync(process.execPath, [file], { encoding: 'utf8', timeout: 30000 })
  assert.deepStrictEqual([status, stderr], [0, ''])
  return stdout.trim()
}

const ASK = (target) => `
if (self.index === -1) {
  console.log(await (await fetch(server.url + '${target}', { headers: { connection: 'close' } })).text(), server.threads)
  await server.close({ deadline: 0 })
}`

test('a fleet', (t) => {
  assert.match(run(t, fleet.replace("'auto'", '2'), ASK('/')), /^thread [01] 2$/)
})

test('messages, also without a fleet', (t) => {
  assert.strictEqual(run(t, messages, "console.log(sum)\nbus.on('changed', (data) => console.log(JSON.stringify(data)))"), '3\n{"key":"x","by":0}')
})

test('metrics of the program', (t) => {
  assert.strictEqual(run(t, own, ''), '')
})

test('the README has a fleet', (t) => {
  assert.strictEqual(inReadme.length, 1)
  assert.match(run(t, inReadme[0].replace("'auto'", '2'), ASK('/who')), /^[01] 2$/)
})
