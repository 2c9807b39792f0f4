// The lock that many people write themselves on ioredis, with its defaults: SET NX PX on one node, and
// compare-and-delete. Like most, it counts the whole TTL from before the SET.
'use strict';
const crypto = require('crypto'), {serve, version, now, until, ioredis} = require('./lockpick');
const ifOwn = call => `if redis.call("get",KEYS[1])==ARGV[1] then return redis.call(${call}) else return 0 end`;
let redis, ttl;
const held = new Map();
serve({name: 'ioredis, SET NX PX', version: version('ioredis'), can: ['extend'], nodes: 'one'}, {
  open: async ({nodes, settings: s}) => {
    ttl = Math.round(s.ttl);
    [redis] = await ioredis(nodes);
    return {quorum: 1};
  },
  acquire: async ({key}) => {
    const began = now(), token = crypto.randomUUID();
    if (await redis.set(key, token, 'PX', ttl, 'NX') !== 'OK') return {no: 'taken'};
    held.set(token, key);
    return {handle: token, token, ...until(began, ttl)};
  },
  extend: async ({handle}) => {
    const began = now();
    return await redis.eval(ifOwn('"pexpire",KEYS[1],ARGV[2]'), 1, held.get(handle), handle, ttl) === 1 ? until(began, ttl) : {no: 'not-held'};
  },
  release: async ({handle}) => await redis.eval(ifOwn('"del",KEYS[1]'), 1, held.get(handle), handle) === 1 ? {} : {no: 'not-held'},
});
