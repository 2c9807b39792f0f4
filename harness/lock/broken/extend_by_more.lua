-- Add to the key's time to live if it has the value.
-- KEYS: the key. ARGV: value, milliseconds to add.
-- Answers 1, or 0 if the key has another value, or is gone.
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], redis.call("pttl", KEYS[1]) + ARGV[2])
end
return 0
