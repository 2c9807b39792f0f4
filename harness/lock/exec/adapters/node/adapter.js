// A starter for an adapter: one key on one node, with SET NX PX and compare-and-delete. Replace the code
// between the lines with your library, and adapt the answers below. See lockpick help adapter.
'use strict';
const net = require('net'), crypto = require('crypto'), {serve, now, until} = require('./lockpick');

// ---- your library ----
let addr, ttl, margin, timeout; // times in milliseconds

// ask sends a command to the node on a new connection and returns its answer, a single line.
const ask = (...words) => new Promise((done, fail) => {
  const i = addr.lastIndexOf(':'), s = net.connect(+addr.slice(i + 1), addr.slice(0, i));
  const late = setTimeout(() => s.destroy(new Error(`no answer for ${timeout} ms`)), timeout);
  let text = '';
  s.on('connect', () => s.write(`*${words.length}\r\n` + words.map(w => `$${Buffer.byteLength(w)}\r\n${w}\r\n`).join('')));
  s.on('data', d => { text += d; if (text.endsWith('\r\n')) { done(text.trim()); s.destroy(); } });
  s.on('error', fail).on('close', () => { clearTimeout(late); fail(new Error('the connection ended')); });
});
const ifOwn = (key, token, ...call) => ask('EVAL',
  `if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("${call[0]}",KEYS[1]${call.length > 1 ? ',ARGV[2]' : ''}) end return 0`,
  '1', key, token, ...call.slice(1)).then(r => r === ':1');

const lease = began => until(began, ttl - margin); // counted from before the request

async function lock(key) {
  const began = now(), token = crypto.randomBytes(20).toString('hex');
  try {
    if (await ask('SET', key, token, 'NX', 'PX', String(ttl)) !== '+OK') return null;
    if (now() >= lease(began).until) throw new Error('the answer arrived too late');
  } catch (e) {
    await ifOwn(key, token, 'del').catch(() => {}); // the outcome is unknown, so the key may have been set
    throw e;
  }
  return {token, ...lease(began)};
}
// ----------------------

const held = new Map();
serve({name: 'adapter', version: '1', can: ['extend'], nodes: 'one'}, {
  open: ({nodes, settings: s}) => {
    [addr, ttl, timeout] = [nodes[0].addr, Math.round(s.ttl), s.timeout];
    margin = ttl * s.drift + 2;
    return {quorum: 1};
  },
  acquire: ({key}) => lock(key).then(l => {
    if (!l) return {no: 'taken'};
    held.set(l.token, key);
    return {handle: l.token, ...l};
  }, e => ({no: 'unknown', why: e.message})),
  extend: async ({handle}) => {
    const began = now();
    return await ifOwn(held.get(handle), handle, 'pexpire', String(ttl)) ? lease(began) : {no: 'not-held'};
  },
  release: async ({handle}) => await ifOwn(held.get(handle), handle, 'del') ? {} : {no: 'not-held'},
});
