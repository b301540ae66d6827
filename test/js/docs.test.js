'use strict'
// The snippets of README.md and docs/: whole programs are run and asked, fragments are parsed and their
// options checked; links lead to files that are there, and in the package.

const { test } = require('node:test')
const assert = require('node:assert')
const fs = require('node:fs')
const path = require('node:path')
const { spawnSync } = require('node:child_process')
const ts = require('typescript')
const { normalise } = require('../../lib/options')

const ROOT = path.join(__dirname, '..', '..')
const DOCS = ['README.md', ...fs.readdirSync(path.join(ROOT, 'docs')).filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`)]
const PROGRAM = /^const server = await serve\(/m
const PATIENCE = 20000 // only to end a program that hangs

const read = (file) => fs.readFileSync(path.join(ROOT, file), 'utf8')
const snippets = DOCS.flatMap((file) => [...read(file).matchAll(/^```js\n([^]*?)^```$/gm)].map(([, code], i) => ({ name: `${file}, snippet ${i + 1}`, code })))
// Programs of several threads need a file to run; test/fleet/docs.test.js has them.
const ofFleets = ({ name, code }) => /^docs\/(?:fleet|command)\.md/.test(name) || /^\s*threads:|threads: \d/m.test(code)
const programs = snippets.filter((each) => !ofFleets(each) && PROGRAM.test(each.code))
const fragments = snippets.filter((each) => !ofFleets(each) && !PROGRAM.test(each.code))

// What the programs are asked, by a route that only one of them has: [request, status, body].
const POST = (body, headers) => ({ method: 'POST', body, headers })
const ASKED = {
  "'/orders/:id'": [
    ['/', {}, 200, 'Hello, World!'],
    ['/health', {}, 204, ''],
    ['/user/7', {}, 200, 'user 7'],
    ['/hello', {}, 200, '{"hi":"you"}'],
    ['/orders/7', {}, 200, '{"id":"7"}'],
    ['/things', {}, 200, '["one","two"]'],
    ['/things', POST('{"a":1}'), 201, '{"a":1}'],
    ['/things', POST('{a'), 400, 'sorry'],
    ['/none', {}, 404, 'nothing at /none']
  ],
  "'POST /json'": [
    ['/text', POST('abc'), 200, 'ABC'],
    ['/json', POST('[1]'), 200, '{"got":[1]}'],
    ['/json', POST('[1'), 400, 'Bad Request'],
    ['/bytes', POST('abc'), 200, '3'],
    ['/form', POST('name=x', { 'content-type': 'application/x-www-form-urlencoded' }), 200, 'x'],
    ['/web', POST('abc'), 200, '3 bytes']
  ],
  "'POST /hash'": [
    ['/hash', POST('abc'), 200, 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'],
    ['/upload', POST('abc'), 200, 'stored']
  ],
  "'POST /sum'": [['/sum', POST('abc'), 200, '3 bytes, the client says nothing']],
  "'POST /vote'": [['/vote', POST('x'.repeat(16)), 200, 'x'.repeat(16)], ['/vote', POST('x'.repeat(17)), 413, null]],
  "'PUT /file/:name'": [
    ['/file/a', { method: 'PUT', body: 'abc', headers: { authorization: 'Bearer secret' } }, 200, '3 bytes of a'],
    ['/file/a', { method: 'PUT', body: 'abc' }, 401, 'not you']
  ],
  "'/generator'": [
    ['/generator', {}, 200, 'one two'],
    ['/readable', {}, 200, read('package.json')],
    ['/web', {}, 200, 'text'],
    ['/response', {}, 201, 'from the web'],
    ['/write', {}, 200, `${Array.from({ length: 1000 }, (_, i) => `line ${i}\n`).join('')}done\n`],
    ['/pipeline', {}, 200, 'much text']
  ],
  "'/logo'": [['/logo', {}, 200, 'x'.repeat(1 << 20)], ['/frame', {}, 200, 'y'.repeat(10) + 'x'.repeat((1 << 20) - 10)]],
  "'/report'": [['/report', {}, 200, 'first second']],
  "'/events'": [['/events', {}, 200, null]],
  "'/search'": [['/search', {}, 200, 'found']]
}

// Put behind a program: asks, prints what came, and ends it as the program itself would be ended.
const DRIVER = `
{
  const answers = []
  for (const [target, init] of JSON.parse(process.env.ASKED)) {
    const response = await fetch(server.url + target, init)
    answers.push([response.status, await response.text()])
  }
  process.stdout.write('\\n' + JSON.stringify(answers))
  if (process.listenerCount('SIGTERM') > 0) process.kill(process.pid, 'SIGTERM')
  else await server.close({ deadline: 0 })
}`

function run (code, asked) {
  const names = code.includes("from 'millrace'") ? '' : "import { serve } from 'millrace'\n"
  const program = names + code.replace(/\bport: 3000\b/, 'port: 0') + DRIVER
  return spawnSync(process.execPath, ['--input-type=module', '-'], {
    cwd: ROOT, input: program, env: { ...process.env, ASKED: JSON.stringify(asked.map(([target, init]) => [target, init])) }, encoding: 'utf8', timeout: PATIENCE, maxBuffer: 1 << 25
  })
}

test('there are snippets, and every program of them is asked something', () => {
  assert.ok(programs.length >= Object.keys(ASKED).length && fragments.length > 0)
  for (const route of Object.keys(ASKED)) assert.strictEqual(programs.filter(({ code }) => code.includes(route)).length, 1, route)
})

for (const { name, code } of snippets) {
  test(`${name} can be parsed`, () => {
    const { diagnostics } = ts.transpileModule(code, { reportDiagnostics: true, fileName: 'snippet.mjs', compilerOptions: { allowJs: true, target: ts.ScriptTarget.Latest, module: ts.ModuleKind.ESNext } })
    assert.deepStrictEqual(diagnostics.map(({ messageText }) => messageText), [])
  })
}

for (const { name, code } of programs) {
  test(`${name} does what it shows`, () => {
    const asked = ASKED[Object.keys(ASKED).find((route) => code.includes(route))]
    assert.ok(asked, 'nothing is asked of this program')
    const { status, signal, stdout, stderr } = run(code, asked)
    assert.deepStrictEqual([status, signal, stderr], [0, null, ''])
    const answers = JSON.parse(stdout.slice(stdout.lastIndexOf('\n') + 1))
    assert.deepStrictEqual(answers.map(([code, body], i) => [code, asked[i][3] === null ? null : body]), asked.map(([, , code, body]) => [code, body]))
  })
}

for (const { name, code } of fragments) {
  test(`${name} gives options that exist`, async () => {
    const AsyncFunction = (async () => {}).constructor
    let calls = 0
    await new AsyncFunction('serve', code)((options) => {
      calls++
      normalise(options)
    })
    assert.ok(calls > 0)
  })
}

test('links lead to files, and those of the README into docs/ are in the package', () => {
  for (const file of DOCS) {
    for (const [, link] of read(file).matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)) assert.ok(fs.existsSync(path.join(ROOT, path.dirname(file), link)), `${file}: ${link}`)
  }
  for (const file of DOCS.slice(1)) assert.ok(read('README.md').includes(`](${file})`), `the README does not name ${file}`)
  assert.ok(require('../../package.json').files.includes('docs/'))
})
