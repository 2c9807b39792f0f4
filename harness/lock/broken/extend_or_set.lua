-- Extend the key's life if it has the value, and set it again if it is gone.
-- KEYS: the key. ARGV: value, TTL in milliseconds.
-- Answers 1, or 0 if the key has another value.
local held = redis.call("get", KEYS[1])
if held and held ~= ARGV[1] then
  return 0
end
redis.call("set", KEYS[1], ARGV[1])
return redis.call("pexpire", KEYS[1], ARGV[2])
