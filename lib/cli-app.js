'use strict'
// What each thread of the command runs: the program, and serve() with what it exports when it has not
// called that itself. In the fallback this thread is the only one.

const { pathToFileURL } = require('node:url')
const { fault, show } = require('./errors')
const { serve, hasServed } = require('./serve')

async function run () {
  const [, , program] = process.argv
  process.argv.splice(1, 1) // as `node program` has it
  const { default: options } = await import(pathToFileURL(program).href)
  if (hasServed()) return
  // A CommonJS program that will call serve() later exports {}.
  if (options === undefined || (typeof options === 'object' && options !== null && Object.keys(options).length === 0)) return
  if (typeof options !== 'object' || options === null) throw fault('ERR_MILLRACE_OPTION', `A program exports the options of serve() as its default, not ${show(options)}.`)
  await serve(options)
}

// A rejection ends the thread with its error, which the supervisor reports; in the fallback, the process.
run()
