'use strict'
// The number of the contract between lib/ and the native module; both sides are raised together.
exports.INTERFACE_VERSION = 2
