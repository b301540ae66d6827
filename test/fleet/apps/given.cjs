'use strict'
// Tells what it was given.

const { workerData } = require('node:worker_threads')
const { serve } = require('millrace')

serve({ port: 0, host: '127.0.0.1', routes: { '/': () => ({ argv: process.argv.slice(2), hello: process.env.HELLO, workerData }) } })
