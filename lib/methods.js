'use strict'
// The methods that routes can name, in the order in which Allow lists them: that of mr_method in
// src/proto/h1_parse.h. CONNECT has no path, so no route can match it.
exports.METHODS = Object.freeze([
  'GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'QUERY', 'PROPFIND',
  'PROPPATCH', 'MKCOL', 'COPY', 'MOVE', 'LOCK', 'UNLOCK', 'REPORT', 'SEARCH', 'PURGE', 'LINK', 'UNLINK'
])
