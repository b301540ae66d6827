// What every server of the bench does besides serving: it says where it listens in one line of
// JSON, collects garbage when told to, and ends when its standard input does.

import { createInterface } from 'node:readline'

async function collect () {
  for (let i = 0; i < 3; i++) {
    if (globalThis.Bun) globalThis.Bun.gc(true)
    else globalThis.gc?.()
    // Finalizers and weak callbacks run between turns, and what they let go is for the next pass.
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** Announces the server; `facts` (engine, version, ...) go into the report. */
export function announce (port, facts = {}) {
  console.log(JSON.stringify({ port, ...facts }))
  const lines = createInterface({ input: process.stdin })
  lines.on('line', async (line) => {
    if (line !== 'gc') return
    await collect()
    console.log(JSON.stringify({ collected: true }))
  })
  lines.on('close', () => process.exit(0))
}
