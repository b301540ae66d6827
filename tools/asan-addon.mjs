// Builds the addon under AddressSanitizer and UndefinedBehaviorSanitizer into build-asan/ and runs the
// JavaScript and child-process tests on it. Leaks are not looked for: Node's own would drown ours; the
// tests count descriptors and the engine's memory instead. Closes with `N passed, N failed`.
//   node tools/asan-addon.mjs [--build-only] [file ...]
import './node-version.mjs'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import { fingerprint, headersPrefix, root } from './build.mjs'

const out = join(root, 'build-asan')
const binary = join(out, 'millrace.node')
const stamp = join(out, '.stamp')
const FLAGS = [
  '-std=c11', '-g', '-O1', '-fsanitize=address,undefined', '-fno-sanitize-recover=all', '-fno-omit-frame-pointer',
  '-fPIC', '-shared', '-fvisibility=hidden', '-DNAPI_VERSION=8', '-D_GNU_SOURCE', '-DNODE_GYP_MODULE_NAME=millrace'
]

function skip (why) {
  console.log(`skipped: ${why}`)
  process.exit(77)
}

function output (command, args) {
  const { status, stdout } = spawnSync(command, args, { cwd: root, encoding: 'utf8' })
  return status === 0 ? stdout.trim() : ''
}

/** The runtime that has to be there before Node is. clang links its own statically, so gcc it is. */
function runtime () {
  const file = output('gcc', ['-print-file-name=libasan.so'])
  if (!isAbsolute(file) || !existsSync(file)) skip('gcc with libasan.so is not installed')
  return file
}

function sources () {
  return ['core', 'binding'].flatMap((part) => output(process.execPath, ['tools/list-sources.mjs', part, 'linux']).split('\n'))
}

function build () {
  const prefix = headersPrefix()
  if (prefix === null) skip('the headers of this Node do not stand beside it')
  const want = createHash('sha256').update(fingerprint() + FLAGS.join(' ')).digest('hex')
  if (existsSync(binary) && existsSync(stamp) && readFileSync(stamp, 'utf8') === want) return
  mkdirSync(out, { recursive: true })
  const args = [...FLAGS, '-I', 'src', '-isystem', join(prefix, 'include', 'node'), ...sources(), '-o', binary]
  const { status } = spawnSync('gcc', args, { cwd: root, stdio: 'inherit' })
  if (status !== 0) {
    console.log('0 passed, 1 failed')
    process.exit(1)
  }
  writeFileSync(stamp, want)
}

function testFiles () {
  return ['js', 'proc'].flatMap((folder) => readdirSync(join(root, 'test', folder))
    .filter((name) => name.endsWith('.test.js')).sort().map((name) => join('test', folder, name)))
}

if (process.platform !== 'linux') skip('only on Linux')
const preload = runtime()
build()
const [option, ...rest] = process.argv.slice(2)
if (option !== '--build-only') {
  const files = option === undefined ? testFiles() : [option, ...rest]
  const { status } = spawnSync(process.execPath, ['tools/test-js.mjs', ...files], {
    cwd: root,
    stdio: 'inherit',
    env: {
      ...process.env,
      LD_PRELOAD: preload,
      MILLRACE_ENGINE: 'native',
      MILLRACE_BINARY: binary,
      ASAN_OPTIONS: 'detect_leaks=0:handle_segv=0',
      UBSAN_OPTIONS: 'print_stacktrace=1'
    }
  })
  process.exitCode = status ?? 1
}
