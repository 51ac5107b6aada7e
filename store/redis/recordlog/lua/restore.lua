-- Restores the state, in several calls: begin, any number of add, then finish; or cancel.
-- KEYS: head, log, state, restore, restored
-- ARGV: the step; a random token of the caller; the milliseconds after which another node may begin;
--       for add, keys and values; for finish, number and hash of the head that is to be replaced, and
--       of the new one
--
-- Returns 1, or 0 if another node restores, or the head is another: then nothing has changed.

local step, token, lease = ARGV[1], ARGV[2], ARGV[3]
if step == 'begin' then
  if not redis.call('SET', KEYS[4], token, 'NX', 'PX', lease) then
    return 0
  end
  redis.call('UNLINK', KEYS[5])
  return 1
end
if redis.call('GET', KEYS[4]) ~= token then
  return 0
end
if step == 'add' then
  for i = 4, #ARGV, 2 do
    redis.call('HSET', KEYS[5], ARGV[i], ARGV[i + 1])
  end
  redis.call('PEXPIRE', KEYS[4], lease)
  redis.call('PEXPIRE', KEYS[5], lease)
  return 1
end
local won = 0
if step == 'finish' then
  local head = {}
  if redis.call('EXISTS', KEYS[3]) == 1 then
    head = redis.call('HMGET', KEYS[1], 'number', 'hash')
  end
  if (head[1] or '0') == ARGV[4] and (head[2] or '') == ARGV[5] and redis.call('EXISTS', KEYS[5]) == 1 then
    redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])
    redis.call('PERSIST', KEYS[5])
    redis.call('RENAME', KEYS[5], KEYS[3])
    redis.call('HSET', KEYS[1], 'number', ARGV[6], 'hash', ARGV[7], 'sum', 0)
    won = 1
  end
end
redis.call('UNLINK', KEYS[4], KEYS[5])
return won
