-- Delete the key if its value is the token.
-- KEYS: the key. ARGV: token.
-- Returns 1, or 0 if the value of the key is not the token.
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0
