-- Delete the key, if it is still the token's.
-- KEYS: the key. ARGV: token.
-- Answers 1, or 0 if the key is not the token's.
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0
