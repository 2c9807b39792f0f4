-- Set the expiry of the key if its value is the token.
-- KEYS: the key. ARGV: token, TTL in milliseconds.
-- Returns 1, or 0 if the value of the key is not the token.
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], ARGV[2])
end
return 0
