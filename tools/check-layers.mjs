// check-layers.mjs -- reads every #include under src/ and holds it against the layers.
//
//   node tools/check-layers.mjs [folder, default src]
//
// Prints each offender as file:line and exits with 1 if there is any.

import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { dirname, join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = process.argv[2] ?? join(dirname(fileURLToPath(import.meta.url)), '..', 'src')

// What each layer may include of the project: a layer's name stands for all of it.
const ALLOWED = {
  // The transport that lives in a loop of libuv's is made by the one who has the loop.
  binding: ['binding', 'base', 'engine/*.h', 'net/uv_stream.h'],
  engine: ['engine', 'proto', 'net', 'base'],
  proto: ['proto', 'base'],
  net: ['net', 'base'],
  base: ['base']
}
const NODE_API = ['node_api.h', 'node_api_types.h', 'js_native_api.h', 'js_native_api_types.h']
const FOREIGN = /^(node|node_buffer|node_object_wrap|napi|napi-inl|nan)\.h$|^(v8|cppgc)\b|^libplatform\//

function projectProblem (layer, target) {
  const [head, ...rest] = target.split('/')
  if (rest.length === 0) return 'name the layer: "layer/file.h"'
  if (target.includes('..')) return 'no way around the layers'
  if (!/\.[ch]$/.test(target)) return 'not a C header'
  if (target.endsWith('.c')) return 'a .c file is included by its test only'
  const ok = ALLOWED[layer].some((entry) => entry === head || entry === target ||
    (entry === 'engine/*.h' && head === 'engine' && rest.length === 1))
  return ok ? null : `${layer}/ may not include ${head}/`
}

function systemProblem (layer, file, target) {
  if (FOREIGN.test(target)) return 'V8, node.h and C++ wrappers are not used'
  if (NODE_API.includes(target)) return layer === 'binding' ? null : 'Node-API belongs to binding/'
  if (target === 'uv.h' || target.startsWith('uv/')) {
    const ok = layer === 'binding' || (layer === 'net' && /^net\/uv_[^/]*\.[ch]$/.test(file))
    return ok ? null : 'uv.h belongs to binding/ and net/uv_*'
  }
  return target.endsWith('.h') ? null : 'a C++ header'
}

// Comments become blanks, so that an #include in one does not count and lines keep their numbers.
// Strings are matched too: "http://..." does not start a comment.
function withoutComments (text) {
  return text.replace(/\/\*[^]*?\*\/|\/\/[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'/g,
    (match) => match[0] === '/' ? match.replace(/[^\n]/g, ' ') : match)
}

function problemsOf (file, text) {
  const layer = file.split('/')[0]
  const problems = []
  withoutComments(text).split('\n').forEach((line, at) => {
    const directive = /^\s*#\s*(?:include|import|include_next)\b\s*(.*)$/.exec(line)
    if (directive === null) return
    const target = /^(?:"([^"]+)"|<([^>]+)>)/.exec(directive[1])
    let problem
    if (target === null) problem = 'an include that this check cannot read'
    else if (target[2] !== undefined) problem = systemProblem(layer, file, target[2])
    else if (['uv.h', ...NODE_API].includes(target[1]) || FOREIGN.test(target[1])) {
      problem = systemProblem(layer, file, target[1])
    } else problem = projectProblem(layer, target[1])
    if (problem) problems.push(`src/${file}:${at + 1}: ${line.trim()}: ${problem}`)
  })
  return problems
}

function main () {
  if (!existsSync(root)) {
    console.error(`${root} does not exist`)
    return 1
  }
  const files = readdirSync(root, { recursive: true }).map((name) => String(name).split(sep).join('/')).sort()
  const problems = []
  let read = 0
  for (const file of files) {
    if (/\.(cc|cpp|cxx|hh|hpp|hxx)$/.test(file)) problems.push(`src/${file}:1: a C++ file`)
    if (!/\.[ch]$/.test(file)) continue
    read++
    if (ALLOWED[file.split('/')[0]] === undefined || !file.includes('/')) {
      problems.push(`src/${file}:1: outside of the layers`)
    } else problems.push(...problemsOf(file, readFileSync(join(root, file), 'utf8')))
  }
  for (const problem of problems) console.log(problem)
  console.log(`layers: ${read} files, ${problems.length === 0 ? 'in order' : `${problems.length} offenders`}`)
  return problems.length === 0 ? 0 : 1
}

process.exitCode = main()
