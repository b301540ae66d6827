// Builds build/Release/millrace.node with node-gyp. `npm run build` always builds anew;
// setup.mjs, install.mjs and start.mjs call ensureBinary(), which builds only what is out of date.
import './node-version.mjs'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, readdirSync, realpathSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { delimiter, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const self = fileURLToPath(import.meta.url)
export const root = join(dirname(self), '..')
export const binary = join(root, 'build', 'Release', 'millrace.node')
const stamp = join(root, 'build', '.stamp')

const SHOWN_LINES = 30 // of the build's output after a failure

/** What a command cannot do, as one sentence for the user. */
export class SetupError extends Error {}

const walk = (dir) => readdirSync(dir, { withFileTypes: true })
  .flatMap((entry) => entry.isDirectory() ? walk(join(dir, entry.name)) : [join(dir, entry.name)])

/** Hash of all that the binary is made from, and of what it is made for. */
export function fingerprint () {
  const files = walk(join(root, 'src')).filter((file) => /\.[ch]$/.test(file)).sort()
  const hash = createHash('sha256')
  hash.update([process.versions.modules, process.platform, process.arch].join(' '))
  for (const file of [...files, join(root, 'binding.gyp'), join(root, 'tools', 'list-sources.mjs')]) {
    hash.update('\0' + relative(root, file) + '\0').update(readFileSync(file))
  }
  return hash.digest('hex')
}

export function isBuilt (want = fingerprint()) {
  return existsSync(binary) && existsSync(stamp) && readFileSync(stamp, 'utf8').trim() === want
}

const runs = (command, args) => {
  const result = spawnSync(command, args, { stdio: 'ignore' })
  return !result.error && result.status === 0
}

/** The C compiler as CC would name it: CC from the environment, else the first that runs. */
export function findCompiler () {
  if (process.env.CC) {
    const [command, ...args] = process.env.CC.trim().split(/\s+/)
    if (runs(command, [...args, '--version'])) return process.env.CC
    throw new SetupError(`The C compiler that CC names (${process.env.CC}) does not run: set CC to gcc or clang, or unset it.`)
  }
  const found = ['cc', 'gcc', 'clang'].find((name) => runs(name, ['--version']))
  if (found) return found
  throw new SetupError('No C compiler was found: install gcc or clang (for example the package build-essential), or name one in CC.')
}

function checkTools () {
  if (process.platform !== 'linux') {
    throw new SetupError(`The native engine runs on Linux only so far, and this is ${process.platform}: the node:http fallback serves here.`)
  }
  const compiler = findCompiler()
  if (!runs('make', ['--version'])) throw new SetupError('make was not found, which building the native engine needs: install it.')
  const python = [process.env.PYTHON, 'python3', 'python'].find((name) => name && runs(name, ['--version']))
  if (!python) throw new SetupError('python3 was not found, which node-gyp needs to build the native engine: install it.')
  return compiler
}

/** The prefix whose include/node fits the running Node, or null: then node-gyp downloads headers. */
export function headersPrefix () {
  const prefix = dirname(dirname(realpathSync(process.execPath)))
  const include = join(prefix, 'include', 'node')
  if (!existsSync(join(include, 'node_api.h'))) return null
  // A prefix can hold the headers of another Node than the one that runs, left by a package.
  const version = existsSync(join(include, 'node_version.h')) ? readFileSync(join(include, 'node_version.h'), 'utf8') : ''
  const major = /#define NODE_MAJOR_VERSION (\d+)/.exec(version)
  return major && major[1] === process.versions.node.split('.')[0] ? prefix : null
}

/** node-gyp: ours when it is installed, else the one that comes with npm. */
function findNodeGyp () {
  const candidates = [
    join(root, 'node_modules', 'node-gyp', 'bin', 'node-gyp.js'),
    process.env.npm_config_node_gyp,
    process.env.npm_execpath && join(dirname(process.env.npm_execpath), '..', 'node_modules', 'node-gyp', 'bin', 'node-gyp.js'),
    join(dirname(realpathSync(process.execPath)), '..', 'lib', 'node_modules', 'npm', 'node_modules', 'node-gyp', 'bin', 'node-gyp.js')
  ]
  const found = candidates.find((file) => file && existsSync(file))
  if (found) return found
  throw new SetupError('node-gyp was not found, neither installed here nor beside npm: run `npm ci`.')
}

function environment (compiler) {
  const path = [dirname(process.execPath), process.env.PATH].filter(Boolean).join(delimiter)
  // There is no C++ here: the C compiler links too, so a machine without g++ builds as well.
  return { ...process.env, PATH: path, CC: compiler, CXX: compiler, LINK: compiler }
}

export function build () {
  const compiler = checkTools()
  const gyp = findNodeGyp()
  const prefix = headersPrefix()
  const want = fingerprint()
  const args = [gyp, 'rebuild', '--release', '--loglevel=warn', `--jobs=${cpus().length}`]
  if (prefix) args.push(`--nodedir=${prefix}`)
  console.log(`building the native engine (${compiler}, headers ${prefix ? 'of this Node' : 'by download'}) ...`)
  const result = spawnSync(process.execPath, args, {
    cwd: root, env: environment(compiler), encoding: 'utf8', maxBuffer: 1 << 26
  })
  const output = `${result.stdout || ''}${result.stderr || ''}`
  if (result.error || result.status !== 0 || !existsSync(binary)) {
    const lines = output.trimEnd().split('\n').slice(-SHOWN_LINES)
    const error = new SetupError('The native engine could not be built; the last lines of node-gyp are above.')
    error.output = lines.join('\n')
    throw error
  }
  const warnings = output.split('\n').filter((line) => /: warning: /.test(line))
  for (const line of warnings) console.log(line)
  writeFileSync(stamp, want + '\n')
  console.log('built build/Release/millrace.node')
}

/** Builds when sources, Node ABI or machine differ from those of the last build. */
export function ensureBinary () {
  if (isBuilt()) return false
  build()
  return true
}

/** Prints what went wrong: the tail of the output, if any, then the sentence. */
export function report (error) {
  if (!(error instanceof SetupError)) throw error
  if (error.output) console.error(error.output)
  console.error(error.message)
}

if (process.argv[1] && realpathSync(process.argv[1]) === realpathSync(self)) {
  try {
    build()
  } catch (error) {
    report(error)
    process.exitCode = 1
  }
}
