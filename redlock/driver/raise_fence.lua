-- Raise the count of grants, if the key is still the token's.
-- KEYS: the key, its count. ARGV: token, the count that it must reach.
-- Answers 1, or 0 if the key is not the token's.
if redis.call("get", KEYS[1]) ~= ARGV[1] then
  return 0
end
if tonumber(redis.call("get", KEYS[2]) or "0") < tonumber(ARGV[2]) then
  redis.call("set", KEYS[2], ARGV[2])
end
return 1
