'use strict'

const { serve, launch } = require('./serve')
const { bus, self } = require('./bus')
const { metrics } = require('./metrics')
const { reply, param, query, header, template } = require('./reply')
const { probe } = require('./load')
const { MillraceError } = require('./errors')
const { version } = require('../package.json')

// One assignment a line: that is what the ESM loader can see.
exports.serve = serve
exports.launch = launch
exports.bus = bus
exports.self = self
exports.metrics = metrics
exports.reply = reply
exports.param = param
exports.query = query
exports.header = header
exports.template = template
exports.probe = probe
exports.version = version
exports.MillraceError = MillraceError
