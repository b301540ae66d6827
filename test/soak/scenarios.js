'use strict'
// What a server must stand for long. Each scenario gives { figures, failures }, two lists of texts, and
// each has a control: a server that hoards on purpose must be seen to.

const { withChild, Rise } = require('./child')
const { upload, download, abortBody, abortStream, abortLarge, abortMany } = require('./clients')

const MIB = 1 << 20
const TRANSFER_LIMIT = 8 * MIB // rise of resident memory during one transfer

// V8 lets its young generation grow to 32 MiB while requests come, whatever they leave behind. The
// long run judges that too, as a user would see it, and warms up before aborts until the generation
// has grown. The short one keeps the generation small, so that it sees what the server itself holds.
const LONG = {
  uploadBytes: 64 * MIB,
  downloadBytes: 1024 * MIB,
  controlBytes: 64 * MIB,
  warmUp: { bodies: 20000, streams: 20000, large: 1000 },
  aborts: { bodies: 10000, streams: 5000, large: 5000 },
  leakBytes: 1024, // for each aborted request, in the control
  abortLimit: 5 * MIB, // rise of resident memory that aborted requests leave behind
  flags: []
}
const SHORT = {
  uploadBytes: 32 * MIB,
  downloadBytes: 64 * MIB,
  controlBytes: 32 * MIB,
  warmUp: { bodies: 1000, streams: 1000, large: 100 },
  aborts: { bodies: 1000, streams: 800, large: 200 },
  leakBytes: 16384,
  abortLimit: 8 * MIB,
  flags: ['--max-semi-space-size=1']
}

const mib = (bytes) => `${(bytes / MIB).toFixed(1)} MiB`
const signed = (bytes) => `${bytes < 0 ? '' : '+'}${mib(bytes)}`

class Report {
  figures = []
  failures = []

  expect (isTrue, text) {
    if (!isTrue) this.failures.push(text)
  }

  figure (text) {
    this.figures.push(text)
  }
}

// ---- transfers ----

async function riseDuring (child, transfer) {
  await child.look()
  const rise = new Rise(child.pid)
  try {
    const result = await transfer()
    return { result, rise: rise.end().peak }
  } finally {
    rise.stop()
  }
}

function judge (report, name, bytes, { result, rise }) {
  report.figure(`${name} ${signed(rise)}`)
  report.expect(result.bytes === bytes && result.isSame, `${name}: ${result.bytes} of ${bytes} octets came, ${result.isSame ? 'all' : 'not all'} of them right`)
  report.expect(rise < TRANSFER_LIMIT, `${name}: memory rose by ${mib(rise)}; the limit is ${mib(TRANSFER_LIMIT)}`)
}

function judgeControl (report, rise, limit) {
  report.figure(`control ${signed(rise)}`)
  report.expect(rise >= limit, `control: a server that hoards was not seen to (${mib(rise)})`)
}

async function uploadScenario (sizes, transport) {
  const report = new Report()
  const { flags } = sizes
  await withChild({}, { transport, flags }, async (child) => {
    for (const isChunked of [false, true]) {
      const name = isChunked ? 'chunked' : 'sized'
      await upload(child.port, '/slow', sizes.uploadBytes / 8, isChunked) // warms up
      const measured = await riseDuring(child, () => upload(child.port, '/slow', sizes.uploadBytes, isChunked))
      judge(report, name, sizes.uploadBytes, measured)
      report.expect(measured.result.pauses >= sizes.uploadBytes / MIB, `${name}: the handler was not slow`)
    }
    const control = await riseDuring(child, () => upload(child.port, '/whole', sizes.controlBytes, false))
    judgeControl(report, control.rise, TRANSFER_LIMIT)
  })
  return report
}

async function downloadScenario (sizes, transport) {
  const report = new Report()
  await withChild({}, { transport, flags: sizes.flags }, async (child) => {
    for (const path of ['/write', '/iterable', '/readable']) {
      await download(child.port, path, sizes.downloadBytes / 8) // warms up
      judge(report, path.slice(1), sizes.downloadBytes, await riseDuring(child, () => download(child.port, path, sizes.downloadBytes)))
    }
    report.expect((await child.look()).waits > 0, 'the handler never had to wait for the client')
    const control = await riseDuring(child, () => download(child.port, '/whole', sizes.controlBytes))
    judgeControl(report, control.rise, TRANSFER_LIMIT)
  })
  return report
}

// ---- aborts ----

async function abortAll (child, { bodies, streams, large }) {
  await abortMany(child.port, bodies, abortBody)
  await abortMany(child.port, streams, abortStream)
  await abortMany(child.port, large, abortLarge)
  return child.quiet()
}

// What is in use after these aborts and a collection, beyond what was in use before.
async function riseAfter (child, counts) {
  const rise = new Rise(child.pid)
  try {
    const after = await abortAll(child, counts)
    return { after, rise: rise.end().now }
  } finally {
    rise.stop()
  }
}

function judgeAborts (report, { aborts, abortLimit }, before, after, rise) {
  const { bodies, streams, large } = aborts
  const gone = (name) => after[name] - before[name]
  const all = bodies + streams + large
  report.figure(`${bodies} bodies, ${streams} streams, ${large} large answers: ${signed(rise)}`)
  report.expect(gone('begun') === all, `${gone('begun')} requests came instead of ${all}`)
  report.expect(gone('aborted') === bodies + streams, `${gone('aborted')} of ${bodies + streams} handlers were told, ${gone('complete')} completed`)
  report.expect(rise < abortLimit, `memory rose by ${mib(rise)}; the limit is ${mib(abortLimit)}`)
  report.expect(after.connections === 0, `${after.connections} connections are left`)
  report.expect(after.usedBytes <= before.usedBytes, `the core holds ${after.usedBytes} octets instead of ${before.usedBytes}`)
  report.expect(after.descriptors <= before.descriptors, `${after.descriptors - before.descriptors} descriptors are left`)
}

// The control is the same process with a leak: nothing else may be what makes the difference.
async function abortScenario (sizes, transport) {
  const report = new Report()
  const { aborts, leakBytes, flags } = sizes
  await withChild({ leakBytes }, { transport, flags }, async (child) => {
    const before = await abortAll(child, sizes.warmUp)
    const { after, rise } = await riseAfter(child, aborts)
    judgeAborts(report, sizes, before, after, rise)
    await child.leak()
    const control = await riseAfter(child, { ...aborts, large: 0 })
    judgeControl(report, control.rise, sizes.abortLimit)
  })
  return report
}

module.exports = { LONG, SHORT, Report, scenarios: { upload: uploadScenario, download: downloadScenario, aborts: abortScenario } }
