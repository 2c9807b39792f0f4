// The protocol's end in Node: one JSON object a line. What a library prints goes to stderr.
'use strict';
const write = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr);
const say = o => write(JSON.stringify(o, (_, v) => typeof v === 'bigint' ? String(v) : v) + '\n');

// Instants are nanoseconds, more than a number of JavaScript holds exactly.
const wall = ms => BigInt(Math.floor(ms)) * 1000000n;

const now = process.hrtime.bigint; // CLOCK_MONOTONIC

const clock = () => ({monotonic: now(), wall: wall(Date.now())});

// serve says hello and answers each request by the function of its op. What that returns, or its
// promise, is the answer; what it throws is a failure of the library, which is a fact.
exports.serve = (hello, ops) => {
  ops = {clock, ping: () => ({pong: true}), ...ops};
  const answer = (id, o) => say({id, ...(o && (o.no || o.pong) ? o : {ok: true, ...o})});
  require('readline').createInterface({input: process.stdin}).on('line', line => {
    const m = JSON.parse(line);
    const f = ops[m.op] || (() => ({no: 'unsupported', why: m.op}));
    Promise.resolve().then(() => f(m)).then(o => answer(m.id, o), e => answer(m.id, {no: 'error', why: String(e && e.message || e)}))
      .then(() => m.op === 'close' && process.exit(0));
  }).on('close', () => process.exit(0));
  say({hello: 1, ...hello});
};
exports.now = now;
// until is the deadline of a lease of so many milliseconds that began at an instant of now().
exports.until = (began, ms) => ({until: began + BigInt(Math.floor(ms * 1e6)), clock: 'monotonic'});
exports.wall = wall;
exports.lost = (handle, why) => say({lost: handle, why, at: wall(Date.now()), clock: 'wall'});
exports.renewed = (handle, until) => say({renewed: handle, until: wall(until), at: wall(Date.now()), clock: 'wall'});

// version of a package that is required, whatever it exports.
exports.version = name => {
  const fs = require('fs'), path = require('path');
  let dir = path.dirname(require.resolve(name));
  while (!fs.existsSync(path.join(dir, 'package.json')) || !require(path.join(dir, 'package.json')).version) dir = path.dirname(dir);
  return require(path.join(dir, 'package.json')).version;
};

// ioredis opens a client for each node, and returns once they are connected or have had 100 ms.
exports.ioredis = async (nodes, timeout) => {
  const Redis = require('ioredis');
  const clients = nodes.map(n => {
    const [host, port] = n.addr.split(':');
    const c = new Redis({host, port: +port, maxRetriesPerRequest: 0, commandTimeout: Math.max(1, Math.round(timeout)), retryStrategy: () => 20, enableOfflineQueue: false});
    c.on('error', () => {}); // a node that is down is no news
    return c;
  });
  const ready = Promise.all(clients.map(c => new Promise(r => c.once('ready', r))));
  await Promise.race([ready, new Promise(r => setTimeout(r, 100))]);
  return clients;
};
