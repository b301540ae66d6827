'use strict'
// The parts of a request target (RFC 9112 3.2), cut but not decoded.

const ABSOLUTE = /^https?:\/\/([^/?]*)/i

// { path, search, authority }: search is '' or starts with '?' and has more; authority is that of
// an absolute target, else ''.
function splitTarget (target) {
  let from = 0
  let authority = ''
  if (target.charCodeAt(0) !== 0x2f /* / */) {
    const absolute = ABSOLUTE.exec(target)
    if (absolute !== null) {
      from = absolute[0].length
      authority = absolute[1]
    }
  }
  const mark = target.indexOf('?', from)
  const path = mark < 0 ? target.slice(from) : target.slice(from, mark)
  const search = mark < 0 || mark === target.length - 1 ? '' : target.slice(mark)
  return { path: path === '' ? '/' : path, search, authority }
}

exports.splitTarget = splitTarget
