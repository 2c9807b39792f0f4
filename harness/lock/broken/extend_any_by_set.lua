-- Set the key again if there is one.
-- KEYS: the key. ARGV: value, TTL in milliseconds.
-- Answers 1, or 0 if the key is gone.
if redis.call("set", KEYS[1], ARGV[1], "XX", "PX", ARGV[2]) then
  return 1
end
return 0
