'use strict'
// What a server on its own needs a fleet for: metrics, health, the rate limit, the access log and
// overload live there (src/engine/fleet.h). One thread and its supervisor, both this one.

const { settleMetrics, unsettleMetrics } = require('./metrics')

const PING_MS = 250
const STUCK_MS = 1000
const ROTATE = 1

class FleetOfOne {
  #binding
  #supervisor

  constructor (binding) {
    const nothing = () => {}
    this.#binding = binding
    this.#supervisor = binding.fleetCreate(1, ROTATE, STUCK_MS, PING_MS, nothing, null)
    const seat = binding.fleetTakeSeat(this.#supervisor, 0)
    this.handle = binding.fleetJoin(binding.fleetNumber(this.#supervisor), seat, nothing)
    settleMetrics(binding, this.handle)
  }

  up () {
    this.#binding.fleetUp(this.handle)
  }

  end () {
    unsettleMetrics(this.handle)
    this.#binding.fleetEnd(this.handle)
    this.#binding.fleetEnd(this.#supervisor)
  }
}

function needsFleet ({ live, rate, overload, accessLog }) {
  return Object.keys(live).length > 0 || rate !== null || overload !== null || accessLog !== null
}

exports.FleetOfOne = FleetOfOne
exports.needsFleet = needsFleet
