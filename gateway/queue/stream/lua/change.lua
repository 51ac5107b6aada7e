-- Changes a record that has a revision. Returns 'ok', 'unknown', 'changed' (it has another revision), or
-- 'empty' (its request is not kept any more).
-- ARGV[3] ID, [4] revision, [5] state, [6] at, [7] 1 if there is an answer, [8] the answer, then fields
-- and values of the hash

local id, state, at = ARGV[3], ARGV[5], tonumber(ARGV[6])
local r = record(id)
local f = redis.call('HMGET', r, 'rev', 'state', 'line', 'rule', 'size', 'entry', 'made')
if not f[1] then return 'unknown' end
if f[1] ~= ARGV[4] then return 'changed' end
local was, is = unfinished(f[2]), unfinished(state)
if is and not was and redis.call('HEXISTS', r, 'data') == 0 then return 'empty' end

local line = lineOf(f[3])
local first = was and redis.call('LINDEX', line, 0) == id
local size = tonumber(f[5]) + 512
redis.call('ZREM', stateOf(f[2]), id)
count(f[4], f[2], size, -1)
count(f[4], state, size, 1)
if state == '' then
  redis.call('DEL', r)
else
  local fields = {}
  for i = 9, #ARGV do fields[#fields + 1] = ARGV[i] end
  redis.call('HSET', r, 'state', state, 'at', ARGV[6], unpack(fields))
  redis.call('HINCRBY', r, 'rev', 1)
  redis.call('ZADD', stateOf(state), counted(state) and f[7] or ARGV[6], id)
  if not counted(state) then redis.call('HDEL', r, 'data') end
  if state == 'gone' then redis.call('HDEL', r, 'answer') elseif ARGV[7] == '1' then redis.call('HSET', r, 'answer', ARGV[8]) end
end

if was and not is then
  unpublish(id, f[6])
  redis.call('LREM', line, 1, id)
  local next = redis.call('LINDEX', line, 0)
  if first and next then schedule(next, tonumber(redis.call('HGET', record(next), 'at'))) end
elseif is and not was then
  if redis.call('RPUSH', line, id) == 1 then schedule(id, at) end
elseif first and state == 'waiting' then
  unpublish(id, f[6])
  schedule(id, at)
elseif first then
  redis.call('ZADD', due, ARGV[6], id)
end
if is and state == 'waiting' and redis.call('HGET', r, 'entry') == f[6] then redis.call('HSET', r, 'entry', '') end
return 'ok'
