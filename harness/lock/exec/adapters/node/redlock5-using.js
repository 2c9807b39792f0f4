// using() of redlock 5, which extends by itself and tells of a loss by an AbortSignal:
// redlock 5 of npm, by the name that package.json gives it
'use strict';
const {serve, version, wall, lost, renewed, ioredis} = require('./lockpick'), {default: Redlock} = require('redlock5');
let redlock, ttl, n = 0, latest;
const byToken = new Map(), held = new Map();
serve({name: 'node-redlock using()', version: version('redlock5'), can: ['lost', 'renewed']}, {
  open: async ({nodes, settings: s}) => {
    ttl = Math.round(s.ttl);
    redlock = new Redlock(await ioredis(nodes, s.timeout), {driftFactor: s.drift, retryCount: 0, retryDelay: 1, retryJitter: 0, automaticExtensionThreshold: Math.round(ttl / 2)});
    redlock.on('error', () => {});
    // The lock is using()'s own: what it acquires and extends to is seen here.
    const acquire = redlock.acquire.bind(redlock), extend = redlock.extend.bind(redlock);
    redlock.acquire = async (...a) => latest = await acquire(...a);
    redlock.extend = async (...a) => { const l = await extend(...a), h = byToken.get(l.value); if (h) renewed(h, l.expiration); return l; };
    return {quorum: Math.floor(nodes.length / 2) + 1};
  },
  acquire: ({key}) => new Promise(answer => {
    const handle = 'h' + ++n;
    let end;
    const over = new Promise(r => { end = r; });
    const used = redlock.using([key], ttl, async signal => {
      held.set(handle, {end, used: () => used});
      byToken.set(latest.value, handle);
      signal.addEventListener('abort', () => lost(handle, String(signal.error && signal.error.message)));
      answer({handle, until: wall(latest.expiration), clock: 'wall', token: latest.value});
      await over;
    });
    used.catch(e => answer({no: 'taken', why: e.message}));
  }),
  release: ({handle}) => { const l = held.get(handle); held.delete(handle); l.end(); return l.used().then(() => ({}), e => ({no: 'unknown', why: e.message})); },
});
