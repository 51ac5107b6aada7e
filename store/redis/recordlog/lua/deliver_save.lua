-- Stores the result of a claimed delivery.
-- KEYS: events, results, leases, receivers, and waiting, failed, delivered of the receiver
-- ARGV: name of the receiver; ID of the event; mark of the claim; state of the delivery: waiting, failed or
--       delivered; result of the try; milliseconds until the next try, and of the pause of the receiver, 0 for
--       none; '1' to disable the receiver, else '0'
--
-- Returns 1, or 0 if the delivery was deleted, or another claim has it now and it was not delivered.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local name, id, state = ARGV[1], ARGV[2], ARGV[4]
local key, waiting = name .. '/' .. id, KEYS[5]
if redis.call('HEXISTS', KEYS[1], key) == 0 then
  return 0
end
local holds = redis.call('HGET', KEYS[3], key) == ARGV[3] and redis.call('ZSCORE', waiting, id)
if not holds and state ~= 'delivered' then
  return 0
end
redis.call('HSET', KEYS[2], key, ARGV[5])
redis.call('HDEL', KEYS[3], key)
if state == 'waiting' then
  redis.call('ZADD', waiting, now + tonumber(ARGV[6]), id)
else
  redis.call('ZADD', state == 'failed' and KEYS[6] or KEYS[7], now, id)
  redis.call('ZREM', waiting, id)
  if state == 'delivered' then
    redis.call('ZREM', KEYS[6], id)
  end
end
local pause = tonumber(ARGV[7])
if pause > 0 or ARGV[8] == '1' then
  local paused, disabled = string.match(redis.call('HGET', KEYS[4], name) or '', '^(%d+) (%d+)$')
  paused, disabled = tonumber(paused or '0'), tonumber(disabled or '0')
  if pause > 0 then
    paused = now + pause
  end
  if ARGV[8] == '1' and disabled == 0 then
    disabled = now
  end
  redis.call('HSET', KEYS[4], name, string.format('%d %d', paused, disabled))
end
return 1
