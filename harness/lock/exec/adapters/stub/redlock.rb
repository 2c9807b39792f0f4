# A stub of redlock of RubyGems, see README.md.
require "securerandom"
require "socket"

module Redlock
  class Client
    CLOCK_DRIFT_FACTOR = 0.01
    OWN = 'if redis.call("get",KEYS[1])==ARGV[1] then return redis.call(%s) end return 0'

    def initialize(urls, redis_timeout: 0.1, **)
      @addrs = urls.map { |u| u.delete_prefix("redis://").split(":") }
      @timeout = redis_timeout
    end

    def lock(resource, ttl, extend: nil, extend_only_if_locked: false)
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      value = extend ? extend[:value] : SecureRandom.uuid
      votes = @addrs.count do |node|
        if extend
          ask(node, "EVAL", format(OWN, '"pexpire",KEYS[1],ARGV[2]'), 1, resource, value, ttl) == ":1"
        else
          ask(node, "SET", resource, value, "NX", "PX", ttl) == "+OK"
        end
      end
      left = ttl - (Process.clock_gettime(Process::CLOCK_MONOTONIC) - began) * 1e3 - ttl * CLOCK_DRIFT_FACTOR - 2
      info = { validity: left.to_i, resource: resource, value: value }
      return info if votes > @addrs.size / 2 && left > 0
      unlock(info)
      false
    end

    def unlock(info)
      @addrs.each { |node| ask(node, "EVAL", format(OWN, '"del",KEYS[1]'), 1, info[:resource], info[:value]) }
    end

    private

    def ask(node, *words)
      Socket.tcp(*node, connect_timeout: @timeout) do |s|
        s.write("*#{words.size}\r\n" + words.map { |w| "$#{w.to_s.bytesize}\r\n#{w}\r\n" }.join)
        s.wait_readable(@timeout) ? s.gets&.strip : nil
      end
    rescue SystemCallError
      nil
    end
  end
end
