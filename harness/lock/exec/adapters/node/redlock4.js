// redlock 4 of npm (mike-marcacci/node-redlock), installed under the name that package.json gives it.
// ioredis and the library keep their defaults except for two settings: retryCount is 0, because lockpick
// retries, and driftFactor comes from the scenario.
'use strict';
const {serve, version, wall, ioredis} = require('./lockpick'), Redlock = require('redlock4');
let redlock, ttl, n = 0;
const held = new Map();
const until = l => ({until: wall(l.expiration), clock: 'wall', token: l.value});
// A failed attempt gives the same error whether others hold the lock or no node answers.
const no = e => ({no: e.name === 'LockError' ? 'taken' : 'error', why: e.message});
serve({name: 'node-redlock', version: version('redlock4'), can: ['extend']}, {
  open: async ({nodes, settings: s}) => {
    ttl = Math.round(s.ttl);
    redlock = new Redlock(await ioredis(nodes), {driftFactor: s.drift, retryCount: 0});
    redlock.on('clientError', () => {});
    return {quorum: Math.floor(nodes.length / 2) + 1};
  },
  acquire: ({key}) => redlock.lock(key, ttl).then(l => { const handle = 'h' + ++n; held.set(handle, l); return {handle, ...until(l)}; }, no),
  extend: ({handle}) => held.get(handle).extend(ttl).then(l => { held.set(handle, l); return until(l); }, e => ({no: 'unknown', why: e.message})),
  release: ({handle}) => held.get(handle).unlock().then(() => ({}), e => ({no: 'unknown', why: e.message})).finally(() => held.delete(handle)),
});
