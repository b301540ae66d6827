// An ECMAScript module as a fleet's program; top-level await holds back the listening.
import { setTimeout as sleep } from 'node:timers/promises'
import { serve, bus, self } from 'millrace'

await sleep(10)
bus.on('echo', (data) => data)
await serve({ port: 0, host: '127.0.0.1', routes: { '/who': () => ({ thread: self.index, threads: self.threads }) } })
