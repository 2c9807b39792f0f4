-- lockpick:release
-- Delete the key, if it is still the token's. If it isn't, the request that sets it may still
-- be under way, and a tombstone has it refused.
-- KEYS: the key, the token's tombstone. ARGV: token, the tombstone's life in milliseconds.
-- Answers 1, or 0 if the key is not the token's.
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
redis.call("set", KEYS[2], "", "PX", ARGV[2])
return 0
