// The server under the wire tests; its routes are what test/wire/*.txt talk about. Options come as
// JSON in WIRE_OPTIONS, the first line of stdout says { port, engine }, and it leaves when stdin ends.
import { setTimeout as sleep } from 'node:timers/promises'
import { header, param, query, reply, serve, template } from '../../lib/index.mjs'

const SLOW_MS = 25
const created = template({ status: 201, headers: { 'Content-Type': 'text/plain; charset=utf-8' } })

const server = await serve({
  host: '127.0.0.1',
  port: 0,
  ...JSON.parse(process.env.WIRE_OPTIONS || '{}'),
  routes: {
    // One text in every form that can give it: the octets on the wire have to be equal.
    '/': 'Hello, World!',
    '/same/fixed': reply({ body: 'Hello, World!' }),
    '/same/template': reply`Hello, World!`,
    '/same/js': () => 'Hello, World!',
    '/same/async': async () => 'Hello, World!',
    '/same/late': async () => { await sleep(SLOW_MS); return 'Hello, World!' },
    '/same/send': (req, res) => { res.send('Hello, World!') },

    // Replies without JavaScript.
    '/probe': 'probe',
    '/empty': reply({ status: 204 }),
    '/custom': reply({ status: 418, headers: { 'X-One': '1', 'X-Two': '2' }, body: 'short' }),
    '/user/:id': reply`user ${param('id')}`,
    '/user/me': 'me',
    '/json': reply.json`{"hi":${query('name', 'you')}}`,
    '/html': reply.html`<p>${query('q', '-')}</p>`,
    '/agent': reply`${header('user-agent', 'none')}`,

    // Handlers.
    '/js/user/:id': (req) => 'user ' + req.params.id,
    '/object': () => ({ hi: 'you' }),
    '/echo': (req) => req.bytes(),
    '/method': (req) => req.method,
    '/target': (req) => req.url,
    '/headers': (req) => req.rawHeaders.join('|'),
    '/slow': async () => { await sleep(SLOW_MS); return 'slow' },
    '/created': (req, res) => { res.reply(created, 'made') },
    '/custom-js': (req, res) => { res.status(418).headers({ 'X-One': '1', 'X-Two': '2' }).send('short') },
    '/tight': { POST: (req) => req.bytes(), limits: { bodyBytes: 4 } },
    '/wide': { POST: (req) => req.bytes(), limits: { bodyBytes: 64 } },
    '/bye': (req, res) => { res.header('Connection', 'close').send('bye') },
    '/throw': () => { throw new Error('on purpose') },
    '/reject': () => Promise.reject(null), // eslint-disable-line prefer-promise-reject-errors
    '/things': { GET: () => 'list', POST: async (req) => 'made ' + await req.text() },
    'PUT /put': () => 'put',
    '/files/*': () => 'files'
  },
  error: () => {} // no log lines: the default answer is what is tested
})

process.stdin.resume()
process.stdin.once('end', () => server.close({ deadline: 100 }))
console.log(JSON.stringify({ port: server.port, engine: server.engine }))
