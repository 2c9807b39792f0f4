-- Delete each key that is still its token's. One that can't be read is no obstacle to the others.
-- KEYS: the keys. ARGV: as many tokens.
-- Answers for each key 1, or 0 if it is not the token's, or an error.
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
