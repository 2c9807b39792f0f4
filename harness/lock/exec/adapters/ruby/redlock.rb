# redlock of RubyGems, leandromoreira/redlock-rb
Gem.paths = { "GEM_HOME" => File.join(__dir__, "gems"), "GEM_PATH" => File.join(__dir__, "gems") }
require_relative "lockpick"
require "redlock"
include Lockpick

lib, ttl, held, n = nil, nil, {}, 0
# What it returns is a validity from then on, less what passed.
lease = ->(began) { Lockpick.till(began, ttl - (ttl * Redlock::Client::CLOCK_DRIFT_FACTOR).to_i - 2) }
take = lambda { |key, **extend|
  began = Lockpick.now
  got = lib.lock(key, ttl, **extend) or raise No.new(extend.empty? ? "taken" : "not-held")
  [got, lease.call(began)]
}
Lockpick.serve(
  { name: "redlock-rb", version: Gem.loaded_specs["redlock"].version.to_s, can: ["extend"] },
  "open" => lambda { |m|
    s = m["settings"]
    ttl = s["ttl"].to_i
    lib = Redlock::Client.new(m["nodes"].map { |node| "redis://#{node["addr"]}" }, retry_count: 0, redis_timeout: s["timeout"] / 1e3)
    { quorum: m["nodes"].size / 2 + 1 }
  },
  "acquire" => lambda { |m|
    got, until_ = take.call(m["key"])
    held["h#{n += 1}"] = got
    { handle: "h#{n}", token: got[:value] }.merge(until_)
  },
  "extend" => lambda { |m|
    was = held[m["handle"]]
    held[m["handle"]], until_ = take.call(was[:resource], extend: was, extend_only_if_locked: true)
    until_
  },
  "release" => lambda { |m|
    lib.unlock(held.delete(m["handle"]))
    raise No.new("unknown", "it doesn't say whether it was still held")
  },
)
