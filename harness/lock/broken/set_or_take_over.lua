-- Set the key if it is free, or if the time that its value begins with has passed.
-- KEYS: the key. ARGV: value, which begins with the time at which it is over in milliseconds, and TTL.
-- Answers 1, or 0 if the key's time has not passed, or its value begins with none.
local held = redis.call("get", KEYS[1])
if held then
  local over = string.match(held, "^(%d+)-")
  if not over or tonumber(over) > string.match(ARGV[1], "^(%d+)-") - ARGV[2] then
    return 0
  end
end
redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2])
return 1
