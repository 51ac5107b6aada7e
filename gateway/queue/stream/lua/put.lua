-- Stores a record at the end of its line. Returns its place, 0 if the rule is full.
-- ARGV[3] ID, [4] line, [5] rule, [6] places, [7] bytes, [8] bytes of this record with the overhead,
-- [9] at, [10] made, then fields and values of the hash

local id, line, rule = ARGV[3], ARGV[4], ARGV[5]
local size = tonumber(ARGV[8])
local function number(what) return tonumber(redis.call('HGET', rules, what .. ' ' .. rule) or 0) end
if number('waiting') + number('dead') >= tonumber(ARGV[6]) or number('bytes') + size > tonumber(ARGV[7]) then
  return 0
end
local fields = {}
for i = 11, #ARGV do fields[#fields + 1] = ARGV[i] end
redis.call('HSET', record(id), 'id', id, 'line', line, 'rule', rule, 'at', ARGV[9], 'made', ARGV[10], unpack(fields))
redis.call('ZADD', stateOf('waiting'), ARGV[10], id)
count(rule, 'waiting', size, 1)
local place = redis.call('RPUSH', lineOf(line), id)
if place == 1 then schedule(id, tonumber(ARGV[9])) end
return place
