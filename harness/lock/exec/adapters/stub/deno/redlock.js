// A stub of Deno-Redlock on deno.land, see README.md in the parent folder.
const ACQUIRE = 'if redis.call("set",KEYS[1],ARGV[1],"NX","PX",ARGV[2]) then return 1 end return 0';
const OWN = 'if redis.call("get",KEYS[1])==ARGV[1] then return redis.call(%) end return 0';
const EXTEND = OWN.replace("%", '"pexpire",KEYS[1],ARGV[2]'), RELEASE = OWN.replace("%", '"del",KEYS[1]');

class Lock {
  constructor(redlock, resources, value, expiration) { Object.assign(this, { redlock, resources, value, expiration }); }
  extend(duration) { return this.redlock.lasting(EXTEND, this.resources, this.value, duration); }
  release() { return this.redlock.vote(RELEASE, this.resources, [this.value]); }
}

export default class Redlock {
  constructor(clients, settings) { Object.assign(this, { clients, settings }); }

  async vote(script, keys, args) {
    const all = await Promise.all(this.clients.map(c => c.eval(script, keys, args).catch(() => 0)));
    if (all.filter(n => n === 1).length <= all.length / 2) throw new Error("no quorum");
  }

  async lasting(script, resources, value, duration) {
    const start = performance.now();
    await this.vote(script, resources, [value, duration]);
    return new Lock(this, resources, value, start + duration - Math.round(this.settings.driftFactor * duration) - 2);
  }

  acquire(resources, duration) {
    const value = crypto.randomUUID();
    return this.lasting(ACQUIRE, resources, value, duration).catch(async e => {
      await this.vote(RELEASE, resources, [value]).catch(() => {});
      throw e;
    });
  }
}
