-- lockpick:release
-- Delete the key if its value is the token. Otherwise the request that sets it may still be in
-- flight, so leave a tombstone that makes the node refuse it.
-- KEYS: the key, the tombstone of the token. ARGV: token, lifetime of the tombstone in milliseconds.
-- Returns 1, or 0 if the value of the key is not the token.
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
redis.call("set", KEYS[2], "", "PX", ARGV[2])
return 0
