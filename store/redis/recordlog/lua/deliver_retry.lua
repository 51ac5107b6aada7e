-- Makes deliveries that failed, or one that failed or was delivered, wait again; and ends a pause of the receiver and
-- enables it.
-- KEYS: events, results, leases, receivers, and waiting, failed, delivered of the receiver
-- ARGV: name of the receiver; ID of the event, '' for all that failed; the most of these in one call
--
-- Returns how many there were.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local name, ids = ARGV[1], {}
if ARGV[2] == '' then
  ids = redis.call('ZRANGE', KEYS[6], 0, tonumber(ARGV[3]) - 1)
elseif redis.call('ZSCORE', KEYS[6], ARGV[2]) or redis.call('ZSCORE', KEYS[7], ARGV[2]) then
  ids = { ARGV[2] }
end
for _, id in ipairs(ids) do
  redis.call('ZADD', KEYS[5], now, id)
  redis.call('HDEL', KEYS[2], name .. '/' .. id)
  redis.call('HDEL', KEYS[3], name .. '/' .. id)
  redis.call('ZREM', KEYS[6], id)
  redis.call('ZREM', KEYS[7], id)
end
if redis.call('HEXISTS', KEYS[4], name) == 1 then
  redis.call('HSET', KEYS[4], name, '0 0')
end
return #ids
