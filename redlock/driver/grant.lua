-- Set the key if it is free or the token's already, unless the token was abandoned before.
-- KEYS: the key, its count, the token's tombstone or the key again where its requests come in order, the
-- run_id that the node was known by, the node's quarantine. ARGV: token, TTL in milliseconds, 1
-- if the grant is to be counted, the quarantine in milliseconds or 0, and the node's run_id if
-- the caller is on a connection to that process and has asked.
-- Answers the count, or 1, or 0 if the key is taken. A node that has another run_id than
-- before, or does not know the one before, may have forgotten keys: it gives no vote until all
-- that it can have forgotten has expired.
local quarantine = ARGV[4]
if quarantine ~= "0" then
  local id = ARGV[5] or string.match(redis.call("info", "server"), "run_id:(%x+)")
  if redis.call("get", KEYS[4]) ~= id then
    redis.call("set", KEYS[5], id, "PX", quarantine)
    redis.call("set", KEYS[4], id)
  end
  local left = redis.call("pttl", KEYS[5])
  if left > 0 then
    return redis.error_reply("QUARANTINE this node restarted or lost its data, and gives no vote for another " .. left .. " ms")
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
