-- Raise the count of grants if the value of the key is the token.
-- KEYS: the key, its count. ARGV: token, the minimum of the count.
-- Returns 1, or 0 if the value of the key is not the token.
if redis.call("get", KEYS[1]) ~= ARGV[1] then
  return 0
end
if tonumber(redis.call("get", KEYS[2]) or "0") < tonumber(ARGV[2]) then
  redis.call("set", KEYS[2], ARGV[2])
end
return 1
