-- Delete the key, and the count of its grants, if it has the value.
-- KEYS: the key. ARGV: value.
-- Answers 1, or 0 if the key has another value, or is gone.
if redis.call("get", KEYS[1]) == ARGV[1] then
  redis.call("del", KEYS[1] .. ":fence")
  return redis.call("del", KEYS[1])
end
return 0
