// npm run bench: rounds of all scenarios in turn, medians, ratios to the floor, targets.
// README.md in this folder says how it measures and how to read it.

import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { build } from './lib/build.mjs'
import { drawChart } from './lib/chart.mjs'
import { choosePins, describeMachine, readSteal } from './lib/machine.mjs'
import { Failed, measure } from './lib/measure.mjs'
import { NotAvailable } from './lib/servers.mjs'
import { cpuTable, judge, memoryTable, progressLine, summarise, targetTable } from './lib/report.mjs'
import { scenarios as allScenarios, targets } from './scenarios.mjs'

const help = `npm run bench -- [options]
  --rounds N      rounds of all scenarios, default 5
  --seconds S     measured window of a scenario, default 2.5
  --warmup S      before each window, default 1
  --only A,B      these scenarios; the floor that they are compared with runs too
  --peers DIR     measure other servers too: DIR has the commands bun and node24, and
                  node_modules/@btc-vision/uwebsockets.js; all that run on Node then run on node24
  --json FILE     default bench/results/latest.json
  --svg FILE      a chart of the ratios
  --strict        exit code 1 when a target is missed
  --list          name the scenarios and leave
  --help`

class Usage extends Error {}

function number (values, name, low) {
  const value = Number(values[name])
  if (!(value >= low)) throw new Usage(`--${name} must be a number of ${low} or more`)
  return value
}

function readOptions () {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '2.5' },
      warmup: { type: 'string', default: '1' },
      only: { type: 'string' },
      peers: { type: 'string' },
      json: { type: 'string', default: fileURLToPath(new URL('results/latest.json', import.meta.url)) },
      svg: { type: 'string' },
      strict: { type: 'boolean', default: false },
      list: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false }
    }
  })
  return {
    ...values,
    rounds: Math.floor(number(values, 'rounds', 1)),
    seconds: number(values, 'seconds', 0.1),
    warmup: number(values, 'warmup', 0),
    peers: values.peers && resolve(values.peers)
  }
}

/** The named ones, and the floors that they are divided by. */
function chooseScenarios (only) {
  if (only === undefined) return allScenarios
  const names = new Set(only.split(',').map((name) => name.trim()))
  for (const name of names) {
    const scenario = allScenarios.find((one) => one.name === name)
    if (!scenario) throw new Usage(`no scenario is named ${name}; --list names them all`)
    if (scenario.floor) names.add(scenario.floor)
  }
  return allScenarios.filter(({ name }) => names.has(name))
}

/** Runs a scenario; a problem is noted once, and takes the scenario out of all later rounds. */
async function runOne (env, scenario, round, results, problems) {
  try {
    const result = await measure(env, scenario)
    result.ratio = result.totalUs / (scenario.name === scenario.floor ? result : results[scenario.floor])?.totalUs
    results[scenario.name] = result
    console.log(progressLine(round, env.rounds, scenario, result))
  } catch (error) {
    const status = error instanceof NotAvailable ? 'not available' : 'FAILED'
    if (!(error instanceof NotAvailable || error instanceof Failed)) console.error(error)
    problems.set(scenario.name, { status, reason: error.message })
    console.log(`${round}/${env.rounds}  ${scenario.title.padEnd(34)} ${status}: ${error.message}`)
  }
}

async function runRounds (env, scenarios) {
  const problems = new Map()
  const rounds = []
  for (let round = 1; round <= env.rounds; round++) {
    const results = {}
    rounds.push(results)
    for (const scenario of scenarios) {
      if (!problems.has(scenario.name)) await runOne(env, scenario, round, results, problems)
    }
  }
  return { rounds, problems }
}

function introduce (machine, env, command) {
  const { pins } = env
  const kind = machine.hypervisor ? ' (virtual machine)' : ''
  console.log(`${machine.cpu}, ${machine.cpus} CPUs${kind}, ${machine.kernel}, Node ${machine.node}`)
  console.log(`server on CPU ${pins.server ?? 'any'}, generator on CPU ${pins.generator ?? 'any'}; ${env.rounds} rounds, windows of ${env.seconds} s`)
  console.log(command)
  for (const note of env.notes) console.log(`note: ${note}`)
  console.log()
}

function collectNotes (machine, pins) {
  const notes = [...pins.notes]
  if (machine.loadAverage > 0.5) {
    notes.push(`the load average is ${machine.loadAverage.toFixed(1)}: something else is running, ` +
      'and figures will be high and spread')
  }
  return notes
}

function stealNote (before, after) {
  const share = (after.stolen - before.stolen) / (after.all - before.all) || 0
  return { share, text: share > 0.01 ? `the hypervisor gave ${(share * 100).toFixed(1)} % of the CPU time to others` : '' }
}

/** The Node that the servers ran on, which with peers is not the one that runs the bench. */
function serverNode (summaries, machine) {
  return summaries.find(({ facts }) => facts?.node)?.facts.node ?? machine.node
}

function write (file, text) {
  mkdirSync(dirname(resolve(file)), { recursive: true })
  writeFileSync(file, text)
  console.log(`wrote ${file}`)
}

async function main () {
  const options = readOptions()
  if (options.help) return console.log(help)
  const scenarios = chooseScenarios(options.only)
  if (options.list) return scenarios.forEach(({ name, title }) => console.log(`${name.padEnd(12)} ${title}`))

  const programs = build()
  const machine = describeMachine()
  const pins = choosePins()
  const env = { ...options, pins, notes: collectNotes(machine, pins), programs }
  const command = `npm run bench -- ${process.argv.slice(2).join(' ')}`.trim()
  introduce(machine, env, command)

  const stealBefore = readSteal()
  const { rounds, problems } = await runRounds(env, scenarios)
  const steal = stealNote(stealBefore, readSteal())
  if (steal.text) env.notes.push(steal.text)

  const summaries = summarise(scenarios, rounds, problems)
  const chosen = targets.filter((target) => scenarios.some(({ name }) => name === target.scenario))
  const judged = judge(chosen, rounds, problems)
  console.log(`\nmedians of ${env.rounds} rounds (min..max)\n`)
  console.log([cpuTable(summaries), memoryTable(summaries), judged.length > 0 && targetTable(judged)].filter(Boolean).join('\n\n'))
  if (steal.text) console.log(`note: ${steal.text}`)
  console.log()

  const { notes, seconds, warmup, peers } = env
  const settings = { rounds: env.rounds, seconds, serverNode: serverNode(summaries, machine), warmup, peers: Boolean(peers), serverCpu: pins.server, generatorCpu: pins.generator }
  const date = new Date().toISOString()
  const report = { date, command, machine, settings, notes, stolenShare: steal.share, summaries, targets: judged, rounds }
  write(env.json, JSON.stringify(report, null, 2) + '\n')
  if (env.svg) {
    const versions = `${machine.kernel}, Node ${serverNode(summaries, machine)}`
    const subtitle = `${machine.cpu}, ${versions}, ${date.slice(0, 10)}, medians of ${env.rounds} rounds`
    write(env.svg, await drawChart(summaries, scenarios, subtitle))
  }

  const failed = [...problems.values()].some(({ status }) => status === 'FAILED')
  const missed = judged.some(({ verdict }) => verdict === 'FAIL')
  if (failed || (env.strict && missed)) process.exitCode = 1
}

try {
  await main()
} catch (error) {
  const isUsage = error instanceof Usage || error.code?.startsWith('ERR_PARSE_ARGS')
  console.error(`bench: ${error.message}`)
  process.exitCode = isUsage ? 2 : 1
}
