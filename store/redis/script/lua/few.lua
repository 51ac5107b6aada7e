-- Decides takes of buckets that fill steadily, token_bucket and leaky_bucket, as one, all or
-- none. It does the same as quick.lua for a call that is sent alone, in two thirds of the time.
--
-- KEYS are the buckets, each once. ARGV are
--
--   numbers   doubles, little-endian: spare and renew (see write.lua), and for each bucket
--     units     what the take charges, in microseconds, below 2^51; 0: a peek; above most if the
--               limit never has that much
--     most      the most that may be used afterwards, as for quick.lua
--
-- and then for each bucket
--
--   head      beginning of its state, with the bar
--
-- It returns the time and for each bucket the t that it found, as quick.lua does. If this script has
-- a process, see plain.lua, its key follows the buckets in KEYS, and all answers are -2 if another
-- epoch is in force.

local keys, words, numbers = KEYS, ARGV, ARGV[1]
spare, renew = doubles('<dd', numbers)
local values = call('MGET', unpack(keys))
if process and table.remove(keys) and (tostring(redis) ~= process or values[#keys + 1] ~= mark) then
  local stale = { 0 }
  for i = 1, #keys do
    stale[i + 1] = -2
  end
  return stale
end
local time = redis.call('TIME')
now = time[1] * 1000000 + time[2]

local base, result, after = now, { now, unpack(keys) }, { unpack(keys) } -- with their final length
local pass, missing = true, nil
for i = 1, #keys do
  local value, t = values[i], 0
  if value then
    local head = words[i + 1]
    t = find(value, head, 1, true) == 1 and tonumber(sub(value, #head + 1))
    if not t or not (t >= 0 and t <= 2 ^ 53) then -- refuses nan and inf, which are numbers too
      t = -1
    end
  else
    missing = missing or {}
    missing[#missing + 1] = keys[i]
  end
  result[i + 1] = t
  local units, most = doubles('<dd', numbers, i * 16 + 1)
@steady
  if t < 0 or not fits then
    pass = false
  end
  after[i] = units > 0 and later or t
end

-- MGET returns nothing for values of other types.
if missing and call('EXISTS', unpack(missing)) ~= 0 then
  pass = false
  for i = 1, #keys do
    if not values[i] and call('EXISTS', keys[i]) ~= 0 then
      result[i + 1] = -1
    end
  end
end

for i = 1, #keys do
  local t, was = after[i], result[i + 1]
  if pass and t > was then
    local _, problem = write(keys[i], values[i], words[i + 1], nil, t, was)
    if problem then
      return problem
    end
  elseif values[i] and was >= 0 then
    heal(keys[i], nil, was)
  end
end
return result
