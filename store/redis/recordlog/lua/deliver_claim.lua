-- Claims deliveries of a receiver that are due, oldest first, and deletes some that ended long ago, and some of the
-- oldest where too many ended.
-- KEYS: events, results, leases, receivers, and waiting, failed, delivered of the receiver
-- ARGV: name of the receiver; mark of the claim; length of the lease; the most deliveries; how long failed ones
--       and delivered ones are kept; the most of each that are kept. Times are milliseconds.
--
-- Returns the time; until when the receiver is paused and since when it is disabled, 0 if it is not; how many
-- deliveries wait, failed and were delivered; how long until the next one is due, -1 if none waits; how many failed
-- ones were deleted because there were too many; then for each claimed one the ID, the event, the result of the last try ('' before the first one).

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local name, waiting, dropped = ARGV[1], KEYS[5], 0
for place, keep in pairs({ [KEYS[6]] = tonumber(ARGV[5]), [KEYS[7]] = tonumber(ARGV[6]) }) do
  local ended = redis.call('ZRANGEBYSCORE', place, '-inf', now - keep, 'LIMIT', 0, 100)
  local excess = redis.call('ZCARD', place) - tonumber(ARGV[7])
  if #ended == 0 and excess > 0 then
    ended = redis.call('ZRANGE', place, 0, math.min(excess, 100) - 1)
    if place == KEYS[6] then
      dropped = #ended
    end
  end
  for _, id in ipairs(ended) do
    redis.call('HDEL', KEYS[1], name .. '/' .. id)
    redis.call('HDEL', KEYS[2], name .. '/' .. id)
    redis.call('ZREM', place, id)
  end
end

local paused, disabled = string.match(redis.call('HGET', KEYS[4], name) or '', '^(%d+) (%d+)$')
paused, disabled = tonumber(paused or '0'), disabled or '0'
local claimed = {}
if paused <= now then
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', waiting, '-inf', now, 'LIMIT', 0, ARGV[4])) do
    local key = name .. '/' .. id
    local event = redis.call('HGET', KEYS[1], key)
    if event then
      redis.call('ZADD', waiting, now + tonumber(ARGV[3]), id)
      redis.call('HSET', KEYS[3], key, ARGV[2])
      claimed[#claimed + 1] = id
      claimed[#claimed + 1] = event
      claimed[#claimed + 1] = redis.call('HGET', KEYS[2], key) or ''
    else
      redis.call('ZREM', waiting, id) -- somebody deleted it
    end
  end
end
local next, wait = redis.call('ZRANGE', waiting, 0, 0, 'WITHSCORES')[2], -1
if next then
  wait = math.max(tonumber(next), paused) - now
end
local answer = {
  string.format('%d', now), string.format('%d', paused), disabled,
  redis.call('ZCARD', waiting), redis.call('ZCARD', KEYS[6]), redis.call('ZCARD', KEYS[7]), math.max(wait, -1),
  dropped,
}
for _, part in ipairs(claimed) do
  answer[#answer + 1] = part
end
return answer
