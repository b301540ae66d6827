// From the figures of the rounds to medians, ratios, targets and tables.

export function median (values) {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

function spread (values) {
  const known = values.filter((value) => Number.isFinite(value))
  if (known.length === 0) return undefined
  return { median: median(known), min: Math.min(...known), max: Math.max(...known), rounds: known.length }
}

/** `what` of a scenario over that of another, round by round; rounds that lack one are left out. */
function ratios (rounds, name, of, what) {
  return rounds.map((round) => round[name]?.[what] / round[of]?.[what])
}

const measured = ['totalUs', 'userUs', 'systemUs', 'requestsPerSecond', 'p50Us', 'p99Us', 'serverBusy', 'generatorBusy', 'bytes']

/** One entry per scenario: the spread of all its figures, and of its ratio to the floor. */
export function summarise (scenarios, rounds, problems) {
  return scenarios.map((scenario) => {
    const { name, title, kind = 'cpu', floor } = scenario
    const problem = problems.get(name)
    const summary = { name, title, kind }
    if (problem) return { ...summary, ...problem }
    for (const what of measured) summary[what] = spread(rounds.map((round) => round[name]?.[what]))
    if (floor) summary.ratio = spread(ratios(rounds, name, floor, 'totalUs'))
    return { ...summary, facts: rounds.find((round) => round[name])?.[name].facts }
  })
}

export function judge (targets, rounds, problems) {
  return targets.map((target) => {
    const { scenario, of, what, limit } = target
    const values = problems.has(scenario) || problems.has(of)
      ? []
      : of ? ratios(rounds, scenario, of, what) : rounds.map((round) => round[scenario]?.[what])
    const value = spread(values)
    return { ...target, value, verdict: value ? value.median <= limit ? 'PASS' : 'FAIL' : 'n/a' }
  })
}

/** Three significant digits, and no exponent. */
export function digits (value) {
  if (!Number.isFinite(value)) return '-'
  if (Math.abs(value) >= 100) return String(Math.round(value))
  return value.toFixed(Math.abs(value) >= 10 ? 1 : Math.abs(value) >= 1 ? 2 : 3)
}

function range (value) {
  return value ? `${digits(value.median)} (${digits(value.min)}..${digits(value.max)})` : '-'
}

/** Rows of text as columns: the first to the left, the others to the right. */
export function table (rows) {
  const widths = rows[0].map((_, i) => Math.max(...rows.map((row) => (row[i] ?? '').length)))
  return rows.map((row) => row.map((cell, i) => i ? cell.padStart(widths[i]) : cell.padEnd(widths[i])).join('  ').trimEnd()).join('\n')
}

export function cpuTable (summaries) {
  const rows = [['CPU time per request, us', 'user', 'system', 'total', 'x floor', 'requests/s', 'p50 us', 'p99 us']]
  const words = []
  for (const s of summaries.filter(({ kind }) => kind === 'cpu')) {
    if (s.status) words.push(`${s.title}: ${s.status}: ${s.reason}`)
    else rows.push([s.title, ...[s.userUs, s.systemUs, s.totalUs, s.ratio, s.requestsPerSecond, s.p50Us, s.p99Us].map(range)])
  }
  return [rows.length > 1 ? table(rows) : '', ...words].filter(Boolean).join('\n')
}

export function memoryTable (summaries) {
  const rows = [['Anonymous memory, idle keep-alive connections', 'octets each']]
  const words = []
  for (const s of summaries.filter(({ kind }) => kind === 'memory')) {
    if (s.status) words.push(`${s.title}: ${s.status}: ${s.reason}`)
    else rows.push([s.title, range(s.bytes)])
  }
  return [rows.length > 1 ? table(rows) : '', ...words].filter(Boolean).join('\n')
}

const quantities = { totalUs: 'user + system', userUs: 'user', bytes: 'octets per idle connection' }

export function targetTable (judged) {
  const rows = [['Target', 'at most', 'measured', '']]
  for (const { scenario, what, of, limit, value, verdict } of judged) {
    rows.push([`${scenario}: ${quantities[what]}${of ? ` / ${of}` : ''}`, digits(limit), range(value), verdict])
  }
  return table(rows)
}

/** The line that is shown as soon as a scenario has run. */
export function progressLine (round, rounds, scenario, result) {
  const start = `${round}/${rounds}  ${scenario.title.padEnd(34)}`
  if (scenario.kind === 'memory') return `${start} ${digits(result.bytes).padStart(8)} octets per connection`
  const { userUs, systemUs, totalUs, ratio, requestsPerSecond, p50Us, p99Us } = result
  const cells = [
    `${digits(userUs)} + ${digits(systemUs)} = ${digits(totalUs)} us`,
    `${digits(ratio)} x floor`,
    `${digits(requestsPerSecond)} req/s`,
    `p50 ${digits(p50Us)} us`,
    `p99 ${digits(p99Us)} us`
  ]
  return `${start} ${cells.map((cell) => cell.padStart(18)).join('')}`
}
