'use strict'
// The seam between the public classes and the engines: what an engine's subclass implements, and
// what it may call. Symbols keep all of this out of the way of properties that a program adds.

// ---- a request's primitives, implemented by each engine; asked at most once where it matters ----
exports.kMethod = Symbol('method') // () -> string
exports.kTarget = Symbol('target') // () -> string: the request target as received
exports.kMinor = Symbol('minor') // () -> 0 | 1: HTTP/1.x
exports.kRawHeaders = Symbol('rawHeaders') // () -> [name, value, ...] as received, latin1
exports.kParams = Symbol('params') // () -> [name, raw value, ...], percent-encoding untouched
exports.kAddress = Symbol('address') // () -> { ip, port } of the client, also after it has gone
exports.kTrust = Symbol('trust') // () -> which proxies are believed (forwarded.js), or null
exports.kBody = Symbol('body') // () -> the Body (body.js), always the same one
exports.kExpects = Symbol('expects') // () -> whether a 100 (Continue) is still to be sent
// () -> boolean. On a request, false once the client has closed its side, or all of the connection,
// before its answer was complete: most clients leave so, but some still read. On a response, false
// once the connection is gone, so that nothing can be sent any more.
exports.kAlive = Symbol('alive')
exports.kOnGone = Symbol('onGone') // request (callback): called when its kAlive turns false, once at most

// ---- a response's primitives (and kAlive, as above) ----
// (status, headers, body, ending): the answer, called at most once.
//   headers  flat [name, value, ...], checked, in wire order; without Content-Length, Date (unless
//            ending.hasDate), Connection, Transfer-Encoding. Do not change it: it may be shared, and
//            the same array means the same head.
//   body     string | Uint8Array | null. null with a status other than 204 and 304: Content-Length 0.
//   ending   { close, hasDate, length }; length >= 0: the Content-Length to announce (HEAD only).
exports.kFinish = Symbol('finish')
// A streamed answer, when the whole is not there at once; kBegin is called in place of kFinish.
//   kBegin(status, headers, ending)  ending.length >= 0: the declared length, for any method
//   kWrite(chunk) -> false when the client is slow; chunk: string | Uint8Array, not empty
//   kDrained() -> promise: true when what was queued has left, false when the client went
//   kEnd(trailers)                   flat [name, value, ...]
//   kAbort()                         the client must see that the answer was cut short
//   kInform(status, headers)         an interim answer, before the others
exports.kBegin = Symbol('begin')
exports.kWrite = Symbol('write')
exports.kDrained = Symbol('drained')
exports.kEnd = Symbol('end')
exports.kAbort = Symbol('abort')
exports.kInform = Symbol('inform')
exports.kRequest = Symbol('request') // () -> the request that this response belongs to

// ---- what an engine calls ----
exports.kDone = Symbol('done') // response (isComplete): the last byte left, or the client went

// ---- state of the base classes ----
exports.kMore = Symbol('more') // what is rarely used; null until then
exports.kStatus = Symbol('status')
exports.kFields = Symbol('fields') // Fields, or null while no header is set
exports.kSent = Symbol('sent') // the head is given
exports.kStream = Symbol('stream') // { declared, written, isEnded } of a streamed answer, or null
exports.kReset = Symbol('reset') // response (status): forgets status and headers

// ---- marks ----
exports.kReply = Symbol('reply') // on what reply() returns: its descriptor
