// using() of redlock 5 of npm (mike-marcacci/node-redlock), installed under the name that package.json gives
// it. using() extends the lock by itself. It hands its routine an AbortSignal and no deadline, so a holder has
// only the signal to go by.
// ioredis and the library keep their defaults except for three settings: retryCount is 0, because lockpick
// retries; driftFactor comes from the scenario; and where the TTL is too short for an
// automaticExtensionThreshold of 500 ms, the threshold is half the TTL.
'use strict';
const {serve, version, lost, ioredis} = require('./lockpick'), {default: Redlock} = require('redlock5');
let redlock, ttl, n = 0;
const held = new Map();
serve({name: 'node-redlock using()', version: version('redlock5'), can: ['lost'], belief: 'signal'}, {
  open: async ({nodes, settings: s}) => {
    ttl = Math.round(s.ttl);
    redlock = new Redlock(await ioredis(nodes), {driftFactor: s.drift, retryCount: 0, ...ttl < 600 && {automaticExtensionThreshold: Math.round(ttl / 2)}});
    return {quorum: Math.floor(nodes.length / 2) + 1};
  },
  acquire: ({key}) => new Promise(answer => {
    const handle = 'h' + ++n;
    let end;
    const over = new Promise(r => { end = r; });
    const used = redlock.using([key], ttl, async signal => {
      held.set(handle, {end, used: () => used});
      signal.addEventListener('abort', () => lost(handle, String(signal.error && signal.error.message)));
      answer({handle});
      await over;
    });
    used.catch(e => answer({no: 'taken', why: e.message}));
  }),
  release: ({handle}) => { const l = held.get(handle); held.delete(handle); l.end(); return l.used().then(() => ({}), e => ({no: 'unknown', why: e.message})); },
});
