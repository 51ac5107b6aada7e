-- Claims the first record that is due. Returns its hash, or after how many microseconds one will be due,
-- -1 for never.
-- ARGV[3] worker, [4] microseconds that the claim lasts

local function take(id)
  local r = record(id)
  local f = redis.call('HMGET', r, 'state', 'sending', 'entry', 'made')
  if f[1] == 'claimed' then
    if f[2] == '1' then
      redis.call('HINCRBY', r, 'tries', 1)
      redis.call('HSET', r, 'reason', 'the claim ran out while the request was sent')
    end
    redis.call('XCLAIM', stream, group, consumer, 0, f[3], 'JUSTID')
  end
  local until_ = text(now + tonumber(ARGV[4]))
  redis.call('HSET', r, 'state', 'claimed', 'claimer', ARGV[3], 'sending', '0', 'at', until_)
  redis.call('HINCRBY', r, 'rev', 1)
  redis.call('ZREM', stateOf('waiting'), id)
  redis.call('ZADD', stateOf('claimed'), f[4], id)
  redis.call('ZADD', due, until_, id)
  return redis.call('HGETALL', r)
end

local expired = publishDue()
if expired then return take(expired) end
for _ = 1, 100 do
  local got = redis.pcall('XREADGROUP', 'GROUP', group, consumer, 'COUNT', 1, 'STREAMS', stream, '>')
  if got and got.err then
    redis.call('XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM')
    got = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', 1, 'STREAMS', stream, '>')
  end
  if not got then break end
  local entry = got[1][2][1]
  local id = entry[2] and entry[2][2] or ''
  local f = redis.call('HMGET', record(id), 'state', 'entry')
  if f[1] == 'waiting' and f[2] == entry[1] then return take(id) end
  redis.call('XACK', stream, group, entry[1]) -- a foreign entry, or one that was replaced
  redis.call('XDEL', stream, entry[1])
end
local first = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
if first[2] then return math.max(tonumber(first[2]) - now, 0) end
return -1
