-- lockpick:extend
-- Set the key again if it has the value.
-- KEYS: the key. ARGV: value.
-- Answers 1, or 0 if the key has another value, or is gone.
if redis.call("get", KEYS[1]) == ARGV[1] then
  redis.call("set", KEYS[1], ARGV[1])
  return 1
end
return 0
