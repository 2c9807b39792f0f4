-- Delete each key whose value is its token. An error with one key does not affect the others.
-- KEYS: the keys. ARGV: a token for each key.
-- Returns for each key 1, or 0 if the value is not the token, or an error.
local answers = {}
for i, key in ipairs(KEYS) do
  local value = redis.pcall("get", key)
  if value == ARGV[i] then
    value = redis.pcall("del", key)
  elseif type(value) ~= "table" then
    value = 0
  end
  answers[i] = value
end
return answers
