// A quiet reporter for node --test: failures in full, skips with their reason, and the closing line
// that tools/test.mjs adds up. Only leaves count: neither suites nor the test that Node makes of a
// file, unless the file itself failed.
import { relative } from 'node:path'
import { inspect } from 'node:util'

const here = (file) => file ? relative(process.cwd(), file) : ''
const isFile = (data) => data.nesting === 0 && data.file && data.name.endsWith('.js') && data.file.endsWith(data.name.replace(/^.*\//, ''))
const isSuite = (data) => data.details?.type === 'suite'

export default async function * reporter (source) {
  const count = { passed: 0, failed: 0, skipped: 0 }
  for await (const { type, data } of source) {
    if (type === 'test:pass' && !isSuite(data) && !isFile(data)) {
      if (data.skip === undefined) count.passed++
      else {
        count.skipped++
        yield `skipped: ${data.name} (${data.skip === true ? 'no reason given' : data.skip || 'no reason given'})\n`
      }
    } else if (type === 'test:fail') {
      const cause = data.details?.error?.cause ?? data.details?.error
      // A suite fails because of its tests, which have been counted.
      if (data.details?.error?.failureType === 'subtestsFailed') continue
      if (data.todo !== undefined) continue
      count.failed++
      yield `FAIL ${here(data.file)}: ${data.name}\n${inspect(cause)}\n`
    } else if (type === 'test:stderr' || type === 'test:stdout') {
      yield data.message
    }
  }
  if (count.skipped > 0) yield `${count.skipped} skipped\n`
  yield `${count.passed} passed, ${count.failed} failed\n`
}
