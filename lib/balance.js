'use strict'
// Who gets a new connection of a fleet: what `balance` may say, and what 'auto' makes of it.

const { fault, show } = require('./errors')

const BALANCES = ['auto', 'reuseport', 'rotate', 'least', 'select']

function refuse (detail) {
  return fault('ERR_MILLRACE_OPTION', detail)
}

// { mode, reason } of what was asked for; 'auto' takes what suits the rest.
function balanceOf (value, select, admit) {
  if (value === undefined || value === 'auto') {
    if (select !== null) return { mode: 'select', reason: 'A select function is given.' }
    if (admit !== null) return { mode: 'rotate', reason: 'An admit function is given, and only the supervisor can ask it.' }
    if (process.platform === 'linux') return { mode: 'reuseport', reason: 'The kernel spreads connections over the sockets of one port here.' }
    return { mode: 'rotate', reason: 'The kernel does not spread connections over the sockets of one port here.' }
  }
  if (!BALANCES.includes(value)) throw refuse(`balance is one of ${BALANCES.map(show).join(', ')}, not ${show(value)}.`)
  if (value === 'select' && select === null) throw refuse("balance: 'select' needs a select function.")
  if (value !== 'select' && select !== null) throw refuse(`A select function does not go with balance: ${show(value)}.`)
  if (value === 'reuseport' && admit !== null) throw refuse("An admit function does not go with balance: 'reuseport', where the kernel chooses.")
  return { mode: value, reason: 'The option asks for it.' }
}

exports.balanceOf = balanceOf
