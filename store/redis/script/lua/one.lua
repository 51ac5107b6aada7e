-- Decides one take of a bucket that fills steadily, as few.lua does for several. It is for calls
-- that are sent alone, where every microsecond is latency.
--
-- KEYS[1] is the bucket; KEYS[2] is the key of the process if this script has one, see plain.lua. It may
-- be missing if the bucket probably has a value.
-- ARGV are
--
--   head      beginning of its state, with the bar
--   units     what the take charges, in microseconds, below 2^51; 0: a peek; above most if the
--             limit never has that much
--   most      the most that may be used afterwards, in microseconds, as for quick.lua
--   place     where the digits begin, if they may be written in place (see write.lua); or ""
--
-- It returns the time and the t that it found, or the later one to which lent units amount; -1 also
-- if lent units may change the answer to a denied take; and -2 if another epoch is in force: a key
-- without a value may have been lost by this process, and any other value by another one. That does not
-- matter to a take that is denied: what was lost was used too.

local head = ARGV[1]
local value = redis.pcall('GET', KEYS[1]) -- or a table with the error
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local t, lent, loans, stay = 0, 0, '', 0
if value then
  if type(value) ~= 'string' or string.sub(value, 1, #head) ~= head then
    return { now, -1 }
  end
  t = tonumber(string.sub(value, #head + 1))
  if not t then
@loans
    t, loans = string.match(value, '^(%d+)(~.*)$', #head + 1)
    if not t then
      return { now, -1 }
    end
    t, lent, stay, loans = tonumber(t), lent_units(loans, now, epoch, lost)
    if not lent then
      return { now, -1 }
    elseif lent > 0 then
      local requests, per = string.match(head, '^1%l (%d+) (%d+)')
      lent = lent * math.ceil(per / requests)
    end
  end
  if not (t >= 0 and t <= 2 ^ 53) then -- refuses nan and inf, which are numbers too
    return { now, -1 }
  end
end
local base, was, units, most, place = now, t, tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
if lent > 0 and now + lent > t then
  t = now + lent
end
@steady
if not fits then
  if loans ~= '' and (lent + units > most or later - most >= stay) then
    return { now, -1 }
  end
elseif process and (tostring(redis) ~= process or not value and not (KEYS[2] and redis.call('GET', KEYS[2]) == mark)) then
  return { 0, -2 }
elseif units > 0 then
  local digits = string.format('%d', later) -- %d is faster than %.0f, but too small on 32 bits
  if #digits ~= 16 then
    digits = string.format('%.0f', later)
  end
  if place == '' or was == 0 or was % 5000000 + later - was >= 5000000 or #value ~= #head + #digits + #loans
    or type(redis.pcall('SETRANGE', KEYS[1], place, digits)) ~= 'number' then
    local life = (later - now) / 1000 + (loans == '' and 15000.5 or 17500.5)
    redis.call('SET', KEYS[1], head .. digits .. loans, 'PX', string.format('%.0f', life))
  end
  return { now, t }
end
if was > 0 and redis.call('PTTL', KEYS[1]) == -1 then
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', used / 1000 + (lent > 0 and 17500 or 15000)))
end
return { now, t }
