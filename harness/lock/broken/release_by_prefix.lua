-- Delete the key if its value begins with the same client's name, which ends at a hyphen.
-- KEYS: the key. ARGV: value.
-- Answers 1, or 0 if the key has another client's value, or is gone.
local held = redis.call("get", KEYS[1])
local client = string.match(ARGV[1], "^[^-]*-")
if held and string.sub(held, 1, #client) == client then
  return redis.call("del", KEYS[1])
end
return 0
