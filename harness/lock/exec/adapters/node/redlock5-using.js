// using() of redlock 5 of npm (mike-marcacci/node-redlock), installed under the name that package.json gives
// it. using() extends the lock automatically. It passes an AbortSignal but no deadline to its routine, so a
// holder can only rely on the signal, and is notified of a loss at the same time as the routine.
// ioredis and the library keep their defaults; driftFactor comes from the scenario, and where the TTL is too
// short for an automaticExtensionThreshold of 500 ms, the threshold is half the TTL. With retries=none
// there is one try in place of eleven, and lockpick retries.
'use strict';
const {serve, version, lost, ioredis, retries} = require('./lockpick'), {default: Redlock} = require('redlock5');
let redlock, ttl, n = 0;
const held = new Map();
const no = e => ({no: e.name === 'ExecutionError' ? 'unknown' : 'error', why: e.message});
serve({name: 'node-redlock using()', version: version('redlock5'), can: ['lost'], belief: 'signal', options: [retries]}, {
  open: async ({nodes, settings: s, options}) => {
    ttl = Math.round(s.ttl);
    redlock = new Redlock(await ioredis(nodes), {driftFactor: s.drift, ...retries.of(options), ...ttl < 600 && {automaticExtensionThreshold: Math.round(ttl / 2)}});
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
    used.catch(e => answer(no(e)));
  }),
  release: ({handle}) => { const l = held.get(handle); held.delete(handle); l.end(); return l.used().then(() => ({}), no); },
});
