-- Have the key expire at an instant if it has the value.
-- KEYS: the key. ARGV: value, the instant in milliseconds.
-- Answers 1, or 0 if the key has another value, or is gone.
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpireat", KEYS[1], ARGV[2])
end
return 0
