-- lockpick:read
-- The first step of a critical section: read the version, and log the request.
-- KEYS[1] the resource; ARGV: unique value, session, 0, fencing token, lock token, fence mode
local k, mode = KEYS[1], ARGV[6]
local version = redis.call('get', k .. ':version') or '0'
local allowed, what = 1, 'read'
local fence = ARGV[4]
if mode == 'counter' then
  fence = tostring(redis.call('incr', k .. ':counter'))
end
if mode == 'token' or mode == 'counter' then
  local top = tonumber(redis.call('get', k .. ':fence') or '0')
  if tonumber(fence) < top then
    allowed = 0
  else
    redis.call('set', k .. ':fence', fence)
  end
elseif mode == 'check-and-set' then
  redis.call('set', k .. ':claim', ARGV[5])
  what = 'claim'
end
redis.call('rpush', k .. ':log', what .. ' ' .. allowed .. ' ' .. ARGV[2] .. ' ' .. ARGV[1] .. ' ' .. version .. ' ' .. fence)
return {allowed, tonumber(version), tonumber(fence)}
