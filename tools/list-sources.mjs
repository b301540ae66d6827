// Prints the C files of one part for binding.gyp: node tools/list-sources.mjs core|binding OS
// (OS as gyp spells it: linux, mac, win, freebsd). Sorted, so that builds are reproducible.
import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const PARTS = {
  core: ['base', 'proto', 'net', 'engine'],
  binding: ['binding']
}

// Files that only one system can compile; the layers above find a transport through its ops table.
const ONLY_ON = {
  'src/net/epoll.c': 'linux',
  'src/net/uring.c': 'linux'
}

// Core by what they are, but built with the addon: only there are libuv's headers certain.
const WITH_LIBUV = /^src\/net\/uv_/

const root = join(dirname(fileURLToPath(import.meta.url)), '..')

const filesOf = (layer) => {
  try {
    return readdirSync(join(root, 'src', layer)).filter((name) => name.endsWith('.c'))
  } catch {
    return [] // a layer without a folder has no files
  }
}

const [part, system = 'linux'] = process.argv.slice(2)
const all = (layers) => layers.flatMap((layer) => filesOf(layer).sort().map((name) => `src/${layer}/${name}`))
const files = [...all(PARTS[part] || []), ...(part === 'binding' ? all(['net']).filter((file) => WITH_LIBUV.test(file)) : [])]
  .filter((file) => !ONLY_ON[file] || ONLY_ON[file] === system)
  .filter((file) => part !== 'core' || !WITH_LIBUV.test(file))
console.log(files.join('\n'))
