-- Set the key if it does not exist or already has the token, unless the token was abandoned before.
-- KEYS: the key; its count; the tombstone of the token, or the key again if the caller's requests
-- arrive in order; the last known run_id of the node; the quarantine of the node.
-- ARGV: token; TTL in milliseconds; 1 to count the grant; the quarantine in milliseconds, or 0; and
-- optionally the run_id of the node, if the caller has read it on the same connection.
-- Returns the count, or 1 without counting, or 0 if the key is taken. A node whose run_id has changed
-- or is not stored may have forgotten keys. It refuses all grants until those keys have expired.
local quarantine = ARGV[4]
if quarantine ~= "0" then
  local id = ARGV[5] or string.match(redis.call("info", "server"), "run_id:(%x+)")
  if redis.call("get", KEYS[4]) ~= id then
    redis.call("set", KEYS[5], id, "PX", quarantine)
    redis.call("set", KEYS[4], id)
  end
  local left = redis.call("pttl", KEYS[5])
  if left > 0 then
    return redis.error_reply("QUARANTINE this node restarted or lost its data and refuses grants for another " .. left .. " ms")
  end
end
if KEYS[3] ~= KEYS[1] and redis.call("exists", KEYS[3]) == 1 then
  return 0
end
local counted = ARGV[3] == "1"
if not redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then
  if redis.call("get", KEYS[1]) ~= ARGV[1] then
    return 0
  end
  return counted and tonumber(redis.call("get", KEYS[2])) or 1
end
if not counted then
  return 1
end
local count = redis.call("incr", KEYS[2])
if count == 1 then
  local now = redis.call("time")
  count = now[1] * 1000 + math.floor(now[2] / 1000) + 1
  redis.call("set", KEYS[2], count)
end
return count
