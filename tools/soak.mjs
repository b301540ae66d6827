// Long runs against a server in a process of its own: memory during large transfers, what aborted
// requests leave behind, and nginx in front. One line each; fails when one of them does.
//   node tools/soak.mjs [--only upload,download,aborts,nginx,nginx-idle] [--transport epoll|uv] [--seconds 60] [--short]
import './node-version.mjs'
import { createRequire } from 'node:module'
import { parseArgs } from 'node:util'

const SKIPPED = 77 // the exit code when all that was asked for could not be run

const require = createRequire(import.meta.url)

function fail (message) {
  console.error(message)
  process.exit(1)
}

function options () {
  try {
    return parseArgs({
      options: {
        only: { type: 'string' },
        transport: { type: 'string' },
        seconds: { type: 'string', default: '60' },
        short: { type: 'boolean', default: false }
      }
    }).values
  } catch (error) {
    return fail(error.message)
  }
}

/** Runs one scenario and prints its line; gives 'passed', 'FAILED' or 'skipped'. */
async function run (name, scenario, sizes, transport) {
  const from = Date.now()
  let report
  try {
    report = await scenario(sizes, transport)
  } catch (error) {
    report = { figures: [], failures: [error.stack] }
  }
  const outcome = report === null ? 'skipped' : report.failures.length === 0 ? 'passed' : 'FAILED'
  const figures = report === null ? 'nginx is not installed (Debian: nginx-light)' : report.figures.join(', ')
  console.log(`${name.padEnd(10)} ${outcome}  ${figures} (${Math.round((Date.now() - from) / 1000)} s)`)
  for (const failure of report?.failures ?? []) console.log(`           ${failure}`)
  return outcome
}

if (process.platform !== 'linux') {
  console.log('the soak needs /proc, so Linux')
  process.exit(SKIPPED)
}
process.env.MILLRACE_ENGINE = 'native'
const { only, transport, seconds, short } = options()
if (transport !== undefined && !['epoll', 'uv'].includes(transport)) fail('--transport is epoll or uv.')
if (!(Number(seconds) > 0)) fail('--seconds is a number above 0.')

const { scenarios: all, LONG, SHORT } = require('../test/soak/scenarios')
const { nginxScenario, nginxIdleScenario } = require('../test/soak/nginx')
const scenarios = { ...all, nginx: nginxScenario, 'nginx-idle': nginxIdleScenario }
const names = only ? only.split(',') : Object.keys(scenarios)
const unknown = names.find((name) => !Object.hasOwn(scenarios, name))
if (unknown !== undefined) fail(`There is no scenario "${unknown}"; there are ${Object.keys(scenarios).join(', ')}.`)

const outcomes = []
for (const name of names) outcomes.push(await run(name, scenarios[name], { ...(short ? SHORT : LONG), seconds: Number(seconds) }, transport))
process.exitCode = outcomes.includes('FAILED') ? 1 : outcomes.every((outcome) => outcome === 'skipped') ? SKIPPED : 0
