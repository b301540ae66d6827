// npm's install script: a prebuilt binary when one loads here, else a build, else one sentence.
// It never fails an installation, because the package also runs without a binary, on node:http.
import './node-version.mjs'
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { SetupError, ensureBinary, root } from './build.mjs'

function prebuilt () {
  const report = process.report && process.report.getReport()
  const musl = process.platform === 'linux' && !(report && report.header.glibcVersionRuntime)
  const folder = `${process.platform}-${process.arch}${musl ? '-musl' : ''}`
  return join(root, 'prebuilds', folder, `millrace-abi${process.versions.modules}.node`)
}

// In a process of its own: a damaged file may take the process that loads it down.
const loads = (file) => existsSync(file) &&
  spawnSync(process.execPath, ['-e', 'require(process.argv[1])', file], { stdio: 'ignore' }).status === 0

try {
  if (!loads(prebuilt())) ensureBinary()
} catch (error) {
  if (error.output) console.error(error.output)
  console.error(`millrace: ${error instanceof SetupError ? error.message : error} ` +
    'It will run on the node:http fallback; to build later: npm rebuild millrace')
}
