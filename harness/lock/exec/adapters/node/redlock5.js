// redlock 5 of npm (mike-marcacci/node-redlock), installed under the name that package.json gives it.
// ioredis and the library keep their defaults; driftFactor comes from the scenario. An acquire, an extension or
// a release therefore makes up to eleven tries. With retries=none it makes one try, and lockpick retries.
'use strict';
const {serve, version, wall, ioredis, retries} = require('./lockpick'), {default: Redlock} = require('redlock5');
let redlock, ttl, n = 0;
const held = new Map();
const until = l => ({until: wall(l.expiration), clock: 'wall', token: l.value});
// A failed attempt gives the same error whether others hold the lock or no node answers.
const no = e => ({no: e.name === 'ExecutionError' ? 'unknown' : 'error', why: e.message});
serve({name: 'node-redlock', version: version('redlock5'), can: ['extend'], options: [retries]}, {
  open: async ({nodes, settings: s, options}) => {
    ttl = Math.round(s.ttl);
    redlock = new Redlock(await ioredis(nodes), {driftFactor: s.drift, ...retries.of(options)});
    redlock.on('error', () => {});
    return {quorum: Math.floor(nodes.length / 2) + 1};
  },
  acquire: ({key}) => redlock.acquire([key], ttl).then(l => { const handle = 'h' + ++n; held.set(handle, l); return {handle, ...until(l)}; }, no),
  extend: ({handle}) => held.get(handle).extend(ttl).then(l => { held.set(handle, l); return until(l); }, no),
  release: ({handle}) => held.get(handle).release().then(() => ({}), no).finally(() => held.delete(handle)),
});
