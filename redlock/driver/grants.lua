-- Grant several keys on the same terms, as grant.lua does one, to requests that come in order: no
-- token of theirs was abandoned before. A key that can't be read is no obstacle to the others.
-- KEYS: the keys, then their counts if grants are counted, then the run_id that the node was known
-- by and its quarantine if there is one. ARGV: a token for each key, then TTL in milliseconds, 1 if
-- the grants are to be counted, the quarantine in milliseconds or 0, and the node's run_id or "".
-- Answers for each key the count, or 1, or 0 if the key is taken, or an error; or one error for all.
local call = redis.call
local n = #ARGV - 4
local ttl, counted, quarantine, id = ARGV[n + 1], ARGV[n + 2] == "1", ARGV[n + 3], ARGV[n + 4]
if quarantine ~= "0" then
  local known, refuses = KEYS[#KEYS - 1], KEYS[#KEYS]
  if id == "" then
    id = string.match(call("info", "server"), "run_id:(%x+)")
  end
  if call("get", known) ~= id then
    call("set", refuses, id, "PX", quarantine)
    call("set", known, id)
  end
  local left = call("pttl", refuses)
  if left > 0 then
    return redis.error_reply("QUARANTINE this node restarted or lost its data, and gives no vote for another " .. left .. " ms")
  end
end
local answers = {}
for i = 1, n do
  local key, token, answer = KEYS[i], ARGV[i], 1
  if not call("set", key, token, "NX", "PX", ttl) then
    local value = redis.pcall("get", key)
    if value == token then
      answer = counted and tonumber(redis.pcall("get", KEYS[n + i])) or 1
    else
      answer = type(value) == "table" and value or 0
    end
  elseif counted then
    answer = redis.pcall("incr", KEYS[n + i])
    if answer == 1 then
      local now = call("time")
      answer = now[1] * 1000 + math.floor(now[2] / 1000) + 1
      call("set", KEYS[n + i], answer)
    end
  end
  answers[i] = answer
end
return answers
