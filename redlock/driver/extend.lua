-- Extend the key's life, if it is still the token's.
-- KEYS: the key. ARGV: token, TTL in milliseconds.
-- Answers 1, or 0 if the key is not the token's.
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], ARGV[2])
end
return 0
