// A quiet reporter for node:test: failures in full, skips with their reason, and a closing line that
// tools/test-js.mjs adds up. Suites do not count, nor tests that failed only because of their parts.
import { inspect } from 'node:util'

const reason = (skip) => typeof skip === 'string' && skip ? skip : 'no reason given'

export default async function * reporter (source) {
  const count = { passed: 0, failed: 0, skipped: 0 }
  for await (const { type, data } of source) {
    const isSuite = data.details?.type === 'suite'
    const error = data.details?.error
    // Not for people: test-js.mjs keeps the last of these, to name what hung.
    if (type === 'test:dequeue' && process.env.MILLRACE_TEST_TRACE) yield `>> ${data.name}\n`
    if (type === 'test:pass' && !isSuite) {
      if (data.skip === undefined) count.passed++
      else {
        count.skipped++
        yield `skipped: ${data.name} (${reason(data.skip)})\n`
      }
    } else if (type === 'test:fail' && data.todo === undefined && error?.failureType !== 'subtestsFailed') {
      count.failed++
      yield `FAIL ${data.name}\n${inspect(error?.cause ?? error)}\n`
    }
  }
  if (count.skipped > 0) yield `${count.skipped} skipped\n`
  yield `${count.passed} passed, ${count.failed} failed\n`
}
