-- Decides takes of token buckets that fill steadily, which is what most are: as
-- decide.lua would, for a third of the work. What a bucket is stands in bucket.lua; with
-- now the time of this server in microseconds,
--
--   used = max(0, t - now),  after = used + cost * charge
--
-- a take passes if after <= full, and makes t = now + after.
--
-- ARGV says first how many limits there are, and of each
--
--   head      as states begin with it, with the bar: "1b 100 60000000 100|"
--   charge    of one unit, microseconds, 1 to 2^45
--   full      capacity, microseconds, below 2^51
--
-- and then of KEYS, in order, in runs of such that are asked the same
--
--   limit     place of its limit, from 1; negative: the key behind each is of the same
--             group, which is decided as one, all or none
--   cost      units, 0 to 2^48; above full/charge the product may be rounded, which
--             leaves it above full
--   n         how many keys the run is long, 1 or more
--
-- It returns the time, and of each key the t that was found, 0 for none, from which the
-- caller works out the decision; -1 where the state was written under other numbers or is
-- none of ours. A group with such a key is left alone, for decide.lua.
--
-- All keys are read at once, and each that was charged is written once in the end: half of
-- the time would go into reading one by one. A key's time to live is that of its state and
-- ten seconds; one that lives for ever gets an end. Only the first write can fail, for
-- memory or rights, so an error says that nothing was charged.

local call, sub, format, tonumber, max = redis.call, string.sub, string.format, tonumber, math.max
local SPARE = 10000 -- milliseconds

local heads, sizes, charges, fulls = {}, {}, {}, {}
local argument = 1
for i = 1, tonumber(ARGV[1]) do
  local head = ARGV[argument + 1]
  heads[i], sizes[i] = head, #head
  charges[i], fulls[i] = tonumber(ARGV[argument + 2]), tonumber(ARGV[argument + 3])
  argument = argument + 3
end

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local keys, total = KEYS, #KEYS
local values = call('MGET', unpack(keys))
local times, owners = {}, {} -- by key: its t, and the limit under which it is read
local distinct, charged = {}, {} -- keys in order, and those that are to be written
local units = {} -- what each key of the group is asked for, microseconds
local result = { now }
local i, first, known, pass = 0, 1, true, true

while i < total do
  local limit, cost = tonumber(ARGV[argument + 1]), tonumber(ARGV[argument + 2])
  local stop = i + tonumber(ARGV[argument + 3])
  argument = argument + 3
  local more = limit < 0
  if more then
    limit = -limit
  end
  local unit, full = cost * charges[limit], fulls[limit]
  while i < stop do
    i = i + 1
    local key = keys[i]
    local t = times[key]
    if not t then
      local value = values[i]
      t = 0
      if value then
        t = -1
        if sub(value, 1, sizes[limit]) == heads[limit] then
          t = tonumber(sub(value, sizes[limit] + 1)) or -1
        end
      end
      times[key], owners[key] = t, limit
      distinct[#distinct + 1] = key
    elseif owners[key] ~= limit then
      t = -1
    end
    result[i + 1], units[i] = t, unit
    if t < 0 then
      known = false
    elseif unit > 0 and max(0, t - now) + unit > full then
      pass = false
    end
    if not more then
      if known and pass then
        for j = first, i do
          if units[j] > 0 then
            local k = keys[j]
            times[k], charged[k] = max(times[k], now) + units[j], true
          end
        end
      end
      first, known, pass = i + 1, true, true
    end
  end
end

for n = 1, #distinct do
  local key = distinct[n]
  local t = times[key]
  if charged[key] then
    call('SET', key, heads[owners[key]] .. format('%.0f', t), 'PX', format('%.0f', (t - now) / 1000 + SPARE + 0.5))
  elseif t > 0 and call('PTTL', key) == -1 then
    call('PEXPIRE', key, format('%.0f', max(0, t - now) / 1000 + SPARE))
  end
end
return result
