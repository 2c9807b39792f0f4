-- Set the key if it is free, and count the grant.
-- KEYS: the key, its count. ARGV: token, TTL in milliseconds.
-- Answers the count, or 0 if the key is taken.
if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then
  return redis.call("incr", KEYS[2])
end
return 0
