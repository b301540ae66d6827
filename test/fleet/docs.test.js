'use strict'
// The programs of docs/fleet.md, and that of the README with threads: each comes up in all its threads, and
// ends with 0 on SIGTERM.

const { test } = require('node:test')
const assert = require('node:assert')
const fs = require('node:fs')
const path = require('node:path')
const { spawnSync } = require('node:child_process')

const ROOT = path.join(__dirname, '..', '..')
const PATIENCE = 60000 // only to end a program that hangs
const snippets = (file) => [...fs.readFileSync(path.join(ROOT, file), 'utf8').matchAll(/^```js\n([^]*?)^```$/gm)].map(([, code], i) => ({ name: `${file}, snippet ${i + 1}`, code }))
const all = snippets('docs/fleet.md')
const programs = [...all, ...snippets('README.md')].filter(({ code }) => /^\s*threads:|serve\(\{ .*threads:/m.test(code))
const app = all.find(({ code }) => code.startsWith('// app.mjs'))
const launcher = all.find(({ code }) => code.includes("launch(new URL('./app.mjs'"))

// Places of a test's own in place of those that are shown.
const placed = (code) => code.replace(/\bport: 3000\b/, "port: 0, host: '127.0.0.1'").replace('port: 9100', 'port: 0').replace("'access.log'", "'/dev/null'")

// Files of the package may import it by its name.
function run (t, files) {
  const folder = fs.mkdtempSync(path.join(__dirname, '.snippet-'))
  t.after(() => fs.rmSync(folder, { recursive: true }))
  for (const [name, code] of Object.entries(files)) fs.writeFileSync(path.join(folder, name), code)
  const { status, stdout, stderr } = spawnSync(process.execPath, [path.join(folder, 'main.mjs')], { encoding: 'utf8', timeout: PATIENCE })
  assert.deepStrictEqual([status, stderr], [0, ''])
  return stdout
}

const END = "\nif ((await import('node:worker_threads')).isMainThread) process.kill(process.pid, 'SIGTERM')\n"

for (const { name, code } of programs) {
  test(name, (t) => {
    run(t, { 'main.mjs': placed(code).replace("threads: 'auto'", 'threads: 2') + END })
  })
}

test('a program, and another that launches it', (t) => {
  const said = run(t, { 'app.mjs': placed(app.code), 'main.mjs': launcher.code + END })
  assert.match(said, /^http:\/\/127\.0\.0\.1:\d+ /)
  assert.match(said, /thread 0 is done/)
  assert.match(said, /thread 1 is done/)
})

test('there are programs', () => {
  assert.ok(programs.length >= 6, String(programs.length))
})
