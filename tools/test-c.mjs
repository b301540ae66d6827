// test-c.mjs -- builds and runs the C tests, and compiles the core with every warning.
//
//   node tools/test-c.mjs [--gcc | --clang] [--filter word] [--tsan] [--warnings-only]
//
// A test is test/c/<module>_test.c. It includes the .c under test itself; further sources are named
// near its top, relative to src/:   /* link: base/mem.c base/buf.c */
// <module>_threads_test.c is one with threads: it is built and run a second time under
// ThreadSanitizer, which cannot share a program with AddressSanitizer. --tsan runs only that.
// Exit code 0 is a pass, 77 a skip (the reason is the last line it printed), all else a failure.

import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const out = join(root, 'build-test')
const JOBS = 2
const TEST_SECONDS = 120
const WARNINGS = ['-std=c11', '-Wall', '-Wextra', '-Wconversion', '-Wshadow', '-Werror', '-I', 'src']
const LAYERS = ['base', 'proto', 'net', 'engine']
const SANITIZERS = {
  asan: ['-fsanitize=address,undefined', '-fno-sanitize-recover=all', '-fno-omit-frame-pointer'],
  tsan: ['-fsanitize=thread'],
  none: []
}
const hasThreads = (name) => name.endsWith('_threads')

const options = parseArguments(process.argv.slice(2))
process.chdir(root)
process.exitCode = await main()

function parseArguments (words) {
  const found = { compiler: null, filter: '', tsan: false, warningsOnly: false }
  for (let i = 0; i < words.length; i++) {
    if (words[i] === '--gcc' || words[i] === '--clang') found.compiler = words[i].slice(2)
    else if (words[i] === '--filter' && i + 1 < words.length) found.filter = words[++i]
    else if (words[i] === '--tsan') found.tsan = true
    else if (words[i] === '--warnings-only') found.warningsOnly = true
    else {
      console.error('usage: node tools/test-c.mjs [--gcc | --clang] [--filter word] [--tsan] [--warnings-only]')
      process.exit(2)
    }
  }
  return found
}

function works (compiler) {
  return spawnSync(compiler, ['--version'], { stdio: 'ignore' }).status === 0
}

// libuv's header stands beside Node; only net/uv_*.c asks for it.
function nodeHeaders () {
  const folder = join(dirname(process.execPath), '..', 'include', 'node')
  return existsSync(folder) ? ['-isystem', folder] : []
}

// Output is kept, not inherited: two jobs would mix theirs.
function run (command, words, seconds) {
  return new Promise((resolve) => {
    const child = spawn(command, words, { stdio: ['ignore', 'pipe', 'pipe'] })
    let text = ''
    let late = false
    child.stdout.on('data', (bytes) => { text += bytes })
    child.stderr.on('data', (bytes) => { text += bytes })
    const timer = setTimeout(() => {
      late = true
      child.kill('SIGKILL')
    }, seconds * 1000)
    child.on('error', (error) => {
      clearTimeout(timer)
      resolve({ code: -1, text: String(error) })
    })
    child.on('close', (code, signal) => {
      clearTimeout(timer)
      if (late) text += `stopped after ${seconds} seconds\n`
      else if (signal) text += `ended by ${signal}\n`
      resolve({ code: code ?? -1, text })
    })
  })
}

async function inParallel (items, work) {
  const results = new Array(items.length)
  let next = 0
  const worker = async () => {
    while (next < items.length) {
      const at = next++
      results[at] = await work(items[at])
    }
  }
  await Promise.all(Array.from({ length: JOBS }, worker))
  return results
}

function filesUnder (folder, ends) {
  if (!existsSync(folder)) return []
  return readdirSync(folder, { recursive: true })
    .map((name) => join(folder, String(name)))
    .filter((path) => ends.some((end) => path.endsWith(end)))
    .sort()
}

// A sanitizer may compile and yet not link or not run (no runtime library, no ptrace, hardened
// kernels), so a small program is the judge. It must also catch an error, or it proves nothing.
async function sanitizerWorks (compiler, kind) {
  const folder = mkdtempSync(join(out, 'try-'))
  try {
    const source = join(folder, 'try.c')
    const program = join(folder, 'try')
    writeFileSync(source, '#include <stdlib.h>\n' +
      'int main(int n, char **v) { char *p = malloc((size_t)n); (void)v; ' +
      'if (p == NULL) return 1; p[0] = 1; n = p[getenv("MR_TRY") != NULL ? n : 0]; free(p); return n == 1 ? 0 : 3; }\n')
    const built = await run(compiler, [...SANITIZERS[kind], '-g', '-O0', source, '-o', program], 60)
    if (built.code !== 0 || (await run(program, [], 60)).code !== 0) return false
    if (kind === 'tsan') return true
    return (await run('env', ['MR_TRY=1', program], 60)).text.includes('AddressSanitizer')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

// The compiler and sanitizer of this run. Asking costs a second, so the answer is kept.
async function chooseTools (kind) {
  const wanted = options.compiler ? [options.compiler] : ['clang', 'gcc', 'cc']
  const compilers = wanted.filter(works)
  if (compilers.length === 0) {
    console.error(`No C compiler found (tried ${wanted.join(', ')}): install gcc or clang.`)
    return null
  }
  const memory = join(out, 'tools.json')
  const key = `${kind} ${compilers.join(' ')}`
  const known = existsSync(memory) ? JSON.parse(readFileSync(memory, 'utf8')) : {}
  if (known[key]) return known[key]
  for (const compiler of compilers) {
    if (await sanitizerWorks(compiler, kind)) {
      writeFileSync(memory, JSON.stringify({ ...known, [key]: { compiler, kind } }))
      return { compiler, kind }
    }
  }
  if (kind === 'tsan') {
    console.log(`ThreadSanitizer does not work with ${compilers.join(' or ')}: the tests with threads run without.`)
    return null
  }
  console.log(`No sanitizer runtime works with ${compilers.join(' or ')}: the C tests run without.`)
  return { compiler: compilers[0], kind: 'none' }
}

function extraSources (test) {
  const head = readFileSync(test, 'utf8').split('\n').slice(0, 30).join('\n')
  const found = [...head.matchAll(/\/\*\s*link:([^*]*)\*\//g)]
  return found.flatMap((match) => match[1].trim().split(/\s+/)).filter(Boolean)
}

function newestChange () {
  const files = [...filesUnder('src', ['.c', '.h']), ...filesUnder(join('test', 'c'), ['.c', '.h', '.inc']),
    join('tools', 'test-c.mjs')]
  return Math.max(...files.map((file) => statSync(file).mtimeMs))
}

async function buildAndRun ({ name, tools }, newest) {
  const test = join('test', 'c', `${name}_test.c`)
  const report = (state, detail) => say(tools.kind === 'tsan' ? `${name} (tsan)` : name, state, detail)
  const program = join(out, `${name}-${tools.compiler}-${tools.kind}`)
  if (!existsSync(program) || statSync(program).mtimeMs <= newest) {
    const sources = extraSources(test).map((file) => join('src', file))
    const words = [...WARNINGS, '-DMR_DEBUG', '-g', '-O1', ...SANITIZERS[tools.kind], ...nodeHeaders(),
      test, ...sources, '-o', program, '-lm', '-lpthread']
    const begun = Date.now() / 1000
    const built = await run(tools.compiler, words, 300)
    // Dated from its start, so that what is edited while it builds counts as newer.
    if (built.code === 0) utimesSync(program, begun, begun)
    if (built.code !== 0) {
      // An old program must not pass for the one that does not compile.
      rmSync(program, { force: true })
      return report('failed', `does not build\n${built.text}`)
    }
  }
  const ran = await run(program, [], TEST_SECONDS)
  if (ran.code === 0) return report('passed', '')
  if (ran.code === 77) return report('skipped', ran.text.trim().split('\n').pop() || 'no reason given')
  return report('failed', `exit code ${ran.code}\n${ran.text}`)
}

function say (name, state, detail) {
  if (state === 'passed') console.log(`ok       ${name}`)
  else if (state === 'skipped') console.log(`skipped  ${name}: ${detail}`)
  else console.log(`FAILED   ${name}: ${detail.trimEnd()}`)
  return state
}

// Every core source alone, with each compiler there is: a test build would hide a missing include.
async function checkWarnings () {
  const compilers = options.compiler ? [options.compiler] : ['gcc', 'clang'].filter(works)
  const sources = LAYERS.flatMap((layer) => filesUnder(join('src', layer), ['.c']))
  const jobs = compilers.flatMap((compiler) => sources.map((source) => ({ compiler, source })))
  const states = await inParallel(jobs, async ({ compiler, source }) => {
    const done = await run(compiler, [...WARNINGS, ...nodeHeaders(), '-fsyntax-only', source], 120)
    return done.code === 0 ? 'passed' : say(`${compiler} ${source}`, 'failed', `warnings\n${done.text}`)
  })
  const failed = states.filter((state) => state === 'failed').length
  console.log(`warnings: ${sources.length} sources, ${compilers.join(' and ') || 'no compiler'}: ` +
    (failed === 0 ? 'none' : `${failed} failed`))
  return compilers.length > 0 && failed === 0
}

async function main () {
  mkdirSync(out, { recursive: true })
  const clean = options.tsan ? true : await checkWarnings()
  if (options.warningsOnly) return clean ? 0 : 1
  const tools = options.tsan ? null : await chooseTools('asan')
  if (tools === null && !options.tsan) return 1
  const names = filesUnder(join('test', 'c'), ['_test.c'])
    .map((file) => file.slice(join('test', 'c', '/').length, -'_test.c'.length))
    .filter((name) => name.includes(options.filter))
  const threaded = names.filter(hasThreads)
  const tsan = threaded.length > 0 ? await chooseTools('tsan') : null
  if (options.tsan && threaded.length > 0 && tsan === null) return 1
  const jobs = tools === null ? [] : names.map((name) => ({ name, tools }))
  if (tsan !== null) jobs.push(...threaded.map((name) => ({ name, tools: tsan })))
  const newest = newestChange()
  const states = await inParallel(jobs, (job) => buildAndRun(job, newest))
  const count = (wanted) => states.filter((state) => state === wanted).length
  // A warning fails the run, so the closing line must not say "0 failed".
  const failed = count('failed') + (clean ? 0 : 1)
  const used = [tools, tsan].filter((one) => one !== null)
    .map(({ compiler, kind }) => `${compiler}, ${kind === 'none' ? 'no sanitizer' : kind}`)
  console.log(`${used.join('; ')}; ${count('skipped')} skipped`)
  console.log(`${count('passed')} passed, ${failed} failed`)
  return failed === 0 ? 0 : 1
}
