-- Set the key if it is free, and answer yes also if it has the value already.
-- KEYS: the key. ARGV: value, TTL in milliseconds.
-- Answers 1, or 0 if the key has another value.
if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) or redis.call("get", KEYS[1]) == ARGV[1] then
  return 1
end
return 0
