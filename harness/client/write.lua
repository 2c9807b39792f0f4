-- lockpick:write
-- The last step of a critical section: write a unique value that is based on a version.
-- KEYS[1] the resource; ARGV: unique value, session, version it is based on, fencing token, lock token, fence mode
local k, mode = KEYS[1], ARGV[6]
if not redis.call('set', k .. ':seen:' .. ARGV[1], '1', 'NX') then
  return {0, 0} -- a value that was handled before: a command is never counted twice
end
local allowed = 1
if mode == 'token' or mode == 'counter' then
  local top = tonumber(redis.call('get', k .. ':fence') or '0')
  if tonumber(ARGV[4]) < top then
    allowed = 0
  else
    redis.call('set', k .. ':fence', ARGV[4])
  end
elseif mode == 'check-and-set' then
  if redis.call('get', k .. ':claim') ~= ARGV[5] then
    allowed = 0
  end
end
local version = tonumber(redis.call('get', k .. ':version') or '0')
if allowed == 1 then
  version = version + 1
  redis.call('set', k .. ':version', tostring(version))
  redis.call('set', k .. ':value', ARGV[1])
end
redis.call('rpush', k .. ':log', 'write ' .. allowed .. ' ' .. ARGV[2] .. ' ' .. ARGV[1] .. ' ' .. ARGV[3] .. ' ' .. ARGV[4])
return {allowed, version, tonumber(ARGV[4])}
