-- Decides one take of a token bucket that fills steadily: quick.lua for a caller who has
-- nobody to travel with, and whom each microsecond keeps waiting.
--
-- KEYS[1] is the bucket. ARGV are
--
--   head      as its state begins with it, with the bar
--   units     cost * charge, microseconds; 0 looks only; below 2^53, or rounded and above full
--   full      capacity, microseconds, below 2^51
--
-- It returns the time and the t that was found, as quick.lua does.

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
  if not t or not (t >= 0 and t <= 2 ^ 53) then -- nan and inf are numbers too
    return { now, -1 }
  end
end
local units = tonumber(ARGV[2])
local after = math.max(0, t - now) + units
if t >= 0 and units > 0 and after <= tonumber(ARGV[3]) then
  redis.call('SET', KEYS[1], head .. string.format('%.0f', now + after), 'PX', string.format('%.0f', after / 1000 + 15000.5))
elseif t > 0 and redis.call('PTTL', KEYS[1]) == -1 then
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(0, t - now) / 1000 + 15000))
end
return { now, t }
