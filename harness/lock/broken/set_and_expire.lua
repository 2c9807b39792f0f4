-- Set the key if it is free, and set the expiry of whatever key is there.
-- KEYS: the key. ARGV: value, TTL in milliseconds.
-- Answers 1, or 0 if the key was not free.
local created = redis.call("setnx", KEYS[1], ARGV[1])
redis.call("pexpire", KEYS[1], ARGV[2])
return created
