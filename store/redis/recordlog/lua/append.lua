-- Appends an entry to the log, if the head is still the one that the caller has seen.
-- KEYS: head, log, state, restore
-- ARGV: number and hash of that head ('0' and '' for none); number, hash and data of the entry; '1' to
--       drop all older entries, else '0'; the most entries and the most bytes of data that the log
--       keeps; then the writes: each is a key, '1' and a value, or a key, '0' and an empty text for a
--       key to delete
--
-- Returns {1} if it was appended; {0, number, hash} with the head if that is another one; {2} while a
-- node restores the state.

local head, log, state = KEYS[1], KEYS[2], KEYS[3]
if redis.call('EXISTS', KEYS[4]) == 1 then
  return { 2 }
end
local now = redis.call('HMGET', head, 'number', 'hash', 'sum')
local number, hash, sum = now[1] or '0', now[2] or '', tonumber(now[3] or '0')
if redis.call('EXISTS', state) == 0 then
  number, hash, sum = '0', '', 0 -- it was deleted or evicted: a node restores it, as if all were lost
end
if number ~= ARGV[1] or hash ~= ARGV[2] then
  return { 0, number, hash }
end

-- These change nothing, or only drop what is no longer needed. A user without one of the rights gets
-- the error here, before the entry is written.
redis.call('HSET', head, 'number', number)
redis.call('HDEL', state, '')
if number == '0' then
  redis.call('UNLINK', log, state) -- what is left of a log whose head or state was deleted
end
sum = sum + #ARGV[5]
local sum_text = string.format('%.0f', sum)
if ARGV[6] == '1' then
  redis.call('XTRIM', log, 'MAXLEN', 0)
end
local length = redis.call('XLEN', log)
while length > 0 do
  local oldest = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)[1]
  local fields = {}
  for i = 1, #oldest[2], 2 do
    fields[oldest[2][i]] = oldest[2][i + 1]
  end
  local before = tonumber(fields.sum) - #fields.data
  if length < tonumber(ARGV[7]) and sum - before <= tonumber(ARGV[8]) then
    break
  end
  redis.call('XTRIM', log, 'MAXLEN', length - 1)
  length = length - 1
end

redis.call('XADD', log, ARGV[3] .. '-0', 'hash', ARGV[4], 'data', ARGV[5], 'sum', sum_text)
for i = 9, #ARGV, 3 do
  if ARGV[i + 1] == '1' then
    redis.call('HSET', state, ARGV[i], ARGV[i + 2])
  else
    redis.call('HDEL', state, ARGV[i])
  end
end
redis.call('HSET', head, 'number', ARGV[3], 'hash', ARGV[4], 'sum', sum_text)
return { 1 }
