// Compiles the floor server and the load generator into build-bench/, when a source is newer.

import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'

const sources = fileURLToPath(new URL('../c/', import.meta.url))
const output = fileURLToPath(new URL('../../build-bench/', import.meta.url))
const programs = {
  floor: ['floor.c'],
  load: ['load.c', 'options.c', 'response.c', 'hist.c', 'cpu.c', 'idle.c']
}
const flags = ['-std=c11', '-O3', '-Wall', '-Wextra', '-Wconversion', '-Wshadow', '-Werror']

function modified (file) {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0
}

function newestSource () {
  const files = readdirSync(sources).filter((name) => /\.[ch]$/.test(name))
  return Math.max(...files.map((name) => modified(join(sources, name))))
}

/** Returns the paths of the programs by name. Throws one sentence when there is no compiler. */
export function build () {
  const compiler = process.env.CC || 'cc'
  const newest = newestSource()
  const paths = {}
  mkdirSync(output, { recursive: true })
  writeFileSync(join(output, '.gitignore'), '*\n')
  for (const [name, files] of Object.entries(programs)) {
    paths[name] = join(output, name)
    if (modified(paths[name]) > newest) continue
    const inputs = files.map((file) => join(sources, file))
    try {
      execFileSync(compiler, [...flags, '-o', paths[name], ...inputs], { stdio: ['ignore', 'inherit', 'inherit'] })
    } catch (error) {
      if (error.code !== 'ENOENT') throw new Error(`the bench's ${name} does not compile`, { cause: error })
      throw new Error(`no C compiler: install gcc or clang, or name one in CC (tried ${compiler})`)
    }
  }
  return paths
}
