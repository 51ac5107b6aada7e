-- Stores waiting deliveries that are due now. Those that it already has stay as they are.
-- KEYS: events, receivers; then for each delivery the key waiting of its receiver
-- ARGV: for each delivery the name of its receiver, the ID of its event, and the event
--
-- Returns how many are new.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local added = 0
for i = 1, #ARGV, 3 do
  local key = ARGV[i] .. '/' .. ARGV[i + 1]
  if redis.call('HEXISTS', KEYS[1], key) == 0 then
    -- The event comes last: if a right is missing, the delivery is not known, and can be added again.
    redis.call('HSETNX', KEYS[2], ARGV[i], '0 0')
    redis.call('ZADD', KEYS[3 + (i - 1) / 3], now, ARGV[i + 1])
    redis.call('HSET', KEYS[1], key, ARGV[i + 2])
    added = added + 1
  end
end
return added
