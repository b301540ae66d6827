// uWebSockets.js, from the folder of peers that the first argument names.

import { createRequire } from 'node:module'
import { join } from 'node:path'
import { announce } from './control.mjs'

const folder = join(process.argv[2], 'node_modules', '@btc-vision', 'uwebsockets.js')
const require = createRequire(join(folder, 'package.json'))
const uws = require(folder)
const { version } = require('./package.json')

uws.App()
  .get('/', (res, req) => { res.end('Hello, World!') })
  .listen('127.0.0.1', 0, (socket) => {
    if (!socket) throw new Error('uWebSockets.js could not listen')
    announce(uws.us_socket_local_port(socket), { version, node: process.version })
  })
