-- Decides one take of a bucket that fills steadily, as few.lua does for several. It is for calls
-- that are sent alone, where every microsecond is latency.
--
-- KEYS[1] is the bucket. ARGV are
--
--   head      beginning of its state, with the bar
--   units     what the take charges, in microseconds, below 2^51; 0: a peek; above most if the
--             limit never has that much
--   most      the most that may be used afterwards, in microseconds, as for quick.lua
--   place     where the digits begin, if they may be written in place (see write.lua); or ""
--
-- It returns the time and the t that it found, as quick.lua does.

local head = ARGV[1]
local value = redis.pcall('GET', KEYS[1]) -- or a table with the error
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local t = 0
if value then
  if type(value) ~= 'string' or string.sub(value, 1, #head) ~= head then
    return { now, -1 }
  end
  t = tonumber(string.sub(value, #head + 1))
  if not t or not (t >= 0 and t <= 2 ^ 53) then -- refuses nan and inf, which are numbers too
    return { now, -1 }
  end
end
local used, units, place = t > now and t - now or 0, tonumber(ARGV[2]), ARGV[4]
local after = now + used + units
if units > 0 and used + units <= tonumber(ARGV[3]) then
  local digits = string.format('%d', after) -- %d is faster than %.0f, but too small on 32 bits
  if #digits ~= 16 then
    digits = string.format('%.0f', after)
  end
  if place == '' or t == 0 or t % 5000000 + after - t >= 5000000 or #value ~= #head + #digits
    or type(redis.pcall('SETRANGE', KEYS[1], place, digits)) ~= 'number' then
    redis.call('SET', KEYS[1], head .. digits, 'PX', string.format('%.0f', (after - now) / 1000 + 15000.5))
  end
elseif t > 0 and redis.call('PTTL', KEYS[1]) == -1 then
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', used / 1000 + 15000))
end
return { now, t }
