// Makes a checkout ready: development packages and the native binary, each only when out of date.
// Node builtins only, because it runs before anything is installed.
import './node-version.mjs'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SetupError, ensureBinary, report, root } from './build.mjs'

const self = fileURLToPath(import.meta.url)

const readJson = (file) => existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {}

/** Whether node_modules holds what the lock file asks for; npm keeps a list of what it installed. */
export function areModulesInstalled () {
  const wanted = readJson(join(root, 'package-lock.json')).packages || {}
  const present = readJson(join(root, 'node_modules', '.package-lock.json')).packages || {}
  return Object.entries(wanted).every(([path, entry]) => path === '' || entry.optional ||
    (present[path] && present[path].version === entry.version && existsSync(join(root, path))))
}

/** How npm is started: through the running Node when npm says where it is, else by its name. */
function npmCommand () {
  const beside = join(dirname(realpathSync(process.execPath)), '..', 'lib', 'node_modules', 'npm', 'bin', 'npm-cli.js')
  const script = [process.env.npm_execpath, beside].find((file) => file && /npm-cli\.js$/.test(file) && existsSync(file))
  return script ? [process.execPath, script] : ['npm']
}

/** `npm ci` unless its result is there already. */
export function ensureModules () {
  if (areModulesInstalled()) return false
  console.log('installing the development packages ...')
  const [command, ...args] = npmCommand()
  // No scripts: none of the packages needs one, and our own would build a second time.
  const result = spawnSync(command, [...args, 'ci', '--ignore-scripts', '--no-audit', '--no-fund'], {
    cwd: root, encoding: 'utf8', maxBuffer: 1 << 26
  })
  if (result.error || result.status !== 0) {
    const error = new SetupError('The development packages (typescript, @types/node, node-gyp) could not be installed with `npm ci`: is the package registry reachable?')
    error.output = `${result.stdout || ''}${result.stderr || ''}`.trimEnd().split('\n').slice(-8).join('\n')
    throw error
  }
  return true
}

if (process.argv[1] && realpathSync(process.argv[1]) === realpathSync(self)) {
  // The binary can be built without the packages, so a failure of the first is not the end.
  for (const step of [ensureModules, ensureBinary]) {
    try {
      step()
    } catch (error) {
      report(error)
      process.exitCode = 1
    }
  }
}
