-- Extends a claim. Returns 1, or 0 if the worker does not have it any more.
-- ARGV[3] ID, [4] worker, [5] microseconds that it lasts, [6] 1 while the record is sent

local r = record(ARGV[3])
local f = redis.call('HMGET', r, 'state', 'claimer')
if f[1] ~= 'claimed' or f[2] ~= ARGV[4] then return 0 end
local until_ = text(now + tonumber(ARGV[5]))
redis.call('HSET', r, 'at', until_, 'sending', ARGV[6])
redis.call('HINCRBY', r, 'rev', 1)
redis.call('ZADD', due, until_, ARGV[3])
return 1
