-- Returns records of a state: for each its ID and then the fields.
-- ARGV[3] state, [4] ID of the record before the first, '' for none, [5] its score, [6] how many,
-- then fields

local key, start = stateOf(ARGV[3]), 0
if ARGV[4] ~= '' then
  local rank = redis.call('ZRANK', key, ARGV[4])
  start = rank and rank + 1 or redis.call('ZCOUNT', key, '-inf', '(' .. ARGV[5])
end
local list = {}
for _, id in ipairs(redis.call('ZRANGE', key, start, start + tonumber(ARGV[6]) - 1)) do
  list[#list + 1] = redis.call('HMGET', record(id), unpack(ARGV, 7))
end
return list
