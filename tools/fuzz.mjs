// Fuzzing of the codecs. Harnesses are test/fuzz/<name>.c, seeds test/fuzz/corpus/<name>/, inputs
// that once failed test/fuzz/crashers/<name>/. Sources beside the harness are named in it, relative
// to src/:  /* link: proto/h1_parse.c base/text.c */
//   node tools/fuzz.mjs --replay [NAME]      every seed and crasher once, under sanitizers
//   node tools/fuzz.mjs --seconds N [NAME]   search with libFuzzer (needs clang)
import './node-version.mjs'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, readdirSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const harnesses = join(root, 'test', 'fuzz')
const out = join(root, 'build-fuzz')

const FLAGS = ['-std=c11', '-g', '-O1', '-DMR_DEBUG', '-I', join(root, 'src')]
const SANITIZE = ['-fsanitize=address,undefined', '-fno-sanitize-recover=all']
const REPLAY_MS = 120_000

const run = (command, args, options) => spawnSync(command, args, { encoding: 'utf8', cwd: root, ...options })
const runs = (command) => run(command, ['--version'], { stdio: 'ignore' }).status === 0

function names (only) {
  const all = readdirSync(harnesses).filter((file) => file.endsWith('.c'))
    .map((file) => file.slice(0, -2)).sort()
  return all.filter((name) => !only || name === only)
}

function sourcesOf (name) {
  const text = readFileSync(join(harnesses, `${name}.c`), 'utf8')
  const linked = [...text.matchAll(/\/\* link: ([^*]*)\*\//g)].flatMap(([, list]) => list.trim().split(/\s+/))
  return [join(harnesses, `${name}.c`), ...linked.map((file) => join(root, 'src', file))]
}

function inputsOf (name) {
  return ['corpus', 'crashers'].map((kind) => join(harnesses, kind, name)).filter(existsSync)
    .flatMap((dir) => readdirSync(dir).sort().map((file) => join(dir, file)))
}

/** Builds the replay program; with sanitizers when this compiler has them. Null when it fails. */
function buildReplay (name, compiler) {
  const program = join(out, `${name}-replay`)
  // Our main, not the harness's own (MR_FUZZ_REPLAY): it gives each input a block of its exact size.
  const sources = [...sourcesOf(name), join(root, 'tools', 'fuzz-replay.c')]
  for (const sanitize of [SANITIZE, []]) {
    const built = run(compiler, [...FLAGS, ...sanitize, ...sources, '-o', program])
    if (built.status === 0) {
      if (sanitize.length === 0) console.log(`${name}: ${compiler} has no sanitizers here, replaying without`)
      return program
    }
    if (sanitize.length === 0) console.log(built.stderr)
  }
  return null
}

/** Replays one harness; returns the number of inputs that passed and failed. */
function replay (name, compiler) {
  const inputs = inputsOf(name)
  const program = buildReplay(name, compiler)
  if (program === null || inputs.length === 0) {
    console.log(`FAIL ${name}: ${program === null ? 'does not build' : 'has no corpus'}`)
    return [0, 1]
  }
  const check = (files) => run(program, files, { timeout: REPLAY_MS })
  if (check(inputs).status === 0) {
    console.log(`ok   ${name} (${inputs.length} inputs)`)
    return [inputs.length, 0]
  }
  // Only now one process for each input: a sanitizer ends at the first one that fails.
  const bad = inputs.map((file) => ({ file, result: check([file]) })).filter(({ result }) => result.status !== 0)
  for (const { file, result } of bad) console.log(`FAIL ${relative(root, file)}\n${result.stderr.slice(0, 4000)}`)
  return [inputs.length - bad.length, Math.max(bad.length, 1)]
}

function replayAll (only) {
  const compiler = ['clang', 'gcc', 'cc'].find(runs)
  let [passed, failed] = [0, 0]
  for (const name of compiler ? names(only) : []) {
    const [good, bad] = replay(name, compiler)
    passed += good
    failed += bad
  }
  if (!compiler) console.log('No C compiler was found: install clang or gcc.')
  console.log(`${passed} passed, ${failed} failed`)
  return passed > 0 && failed === 0
}

/** Searches for `seconds`; new inputs and crashes go to build-fuzz/. */
function search (name, seconds) {
  const program = join(out, name)
  const found = join(out, 'corpus', name)
  mkdirSync(found, { recursive: true })
  const built = run('clang', [...FLAGS, '-fsanitize=fuzzer,address,undefined', '-fno-sanitize-recover=all',
    ...sourcesOf(name), '-o', program], { stdio: 'inherit' })
  if (built.status !== 0) return false
  const seeds = join(harnesses, 'corpus', name)
  const result = run(program, [`-max_total_time=${seconds}`, '-print_final_stats=1', '-rss_limit_mb=1024',
    `-artifact_prefix=${join(out, `${name}-`)}`, found, ...(existsSync(seeds) ? [seeds] : [])], { stdio: 'inherit' })
  return result.status === 0
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { replay: { type: 'boolean', default: false }, seconds: { type: 'string' } }
})
mkdirSync(out, { recursive: true })
if (values.replay) {
  process.exitCode = replayAll(positionals[0]) ? 0 : 1
} else if (values.seconds && runs('clang')) {
  const results = names(positionals[0]).map((name) => search(name, Number(values.seconds)))
  process.exitCode = results.length > 0 && results.every(Boolean) ? 0 : 1
} else {
  console.log(values.seconds ? 'Fuzzing needs clang with libFuzzer: install clang.' : 'usage: node tools/fuzz.mjs --replay [NAME] | --seconds N [NAME]')
  process.exitCode = 1
}
