-- Decides one take of a bucket whose units may be lent to other nodes, as one.lua does for others.
-- KEYS[1] and the first four of ARGV are as there. Then follows
--
--   epoch     with KEYS[2], the key of the process, if a loan that was lost would change the
--             answer: the value that the caller remembers of that key, see lend.lua
--
-- It returns the time and the t that it found, or the later one to which lent units amount; -1 also
-- if lent units may change the answer to a denied take; and -2 if another epoch is in force. A key
-- without a value may have been lost by this process, and any other value by another one.

local head, epoch = ARGV[1], ARGV[5]
local value = redis.pcall('GET', KEYS[1]) -- or a table with the error
if epoch and (not string.find(epoch, tostring(redis), 1, true) or not value and redis.call('GET', KEYS[2]) ~= epoch) then
  return { 0, -2 }
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local t, used, loans, stay = 0, 0, '', 0
if value then
  if type(value) ~= 'string' or string.sub(value, 1, #head) ~= head then
    return { now, -1 }
  end
  t = tonumber(string.sub(value, #head + 1))
  if not t then
    local digits
    digits, loans = string.match(value, '^(%d+)(~.*)$', #head + 1)
    local lent
    if digits then
      lent, stay = lent_units(loans, now, epoch and string.match(epoch, '^%d+ '))
    end
    if not lent then
      return { now, -1 }
    end
    local requests, per = string.match(head, '^1%l (%d+) (%d+)')
    t, used = tonumber(digits), lent * math.ceil(per / requests)
    if not_lent(loans, now, epoch) then
      loans = ''
    end
  end
  if not (t >= 0 and t <= 2 ^ 53) then -- refuses nan and inf, which are numbers too
    return { now, -1 }
  end
end
local units, most, place = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
if used + units > most then
  stay = 0
end
used = t - now > used and t - now or used
local after = now + used + units
local fits = used + units <= most
if not fits and loans ~= '' and after - most >= stay then
  return { now, -1 }
end
if fits and units > 0 then
  local digits = string.format('%d', after) -- as in one.lua
  if #digits ~= 16 then
    digits = string.format('%.0f', after)
  end
  if place == '' or t == 0 or t % 5000000 + after - t >= 5000000 or #value ~= #head + #digits + #loans
    or type(redis.pcall('SETRANGE', KEYS[1], place, digits)) ~= 'number' then
    local life = (after - now) / 1000 + (loans == '' and 15000.5 or 17500.5)
    redis.call('SET', KEYS[1], head .. digits .. loans, 'PX', string.format('%.0f', life))
  end
elseif t > 0 and redis.call('PTTL', KEYS[1]) == -1 then
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', used / 1000 + 17500))
end
return { now, used > 0 and now + used or t }
