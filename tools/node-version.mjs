// Imported first by every command, before anything that an old Node could not load: it ends the
// process with one sentence instead of a stack trace.
const OLDEST = 20

if (Number(process.versions.node.split('.')[0]) < OLDEST) {
  console.error('millrace needs Node ' + OLDEST + ' or newer; this is Node ' +
    process.versions.node + ' (' + process.execPath + ').')
  process.exit(1)
}
