-- Returns the numbers of all rules, and rule and time of the oldest unfinished records.

local oldest = {}
for _, state in ipairs({ 'claimed', 'waiting' }) do
  for _, id in ipairs(redis.call('ZRANGE', stateOf(state), 0, 999)) do
    local f = redis.call('HMGET', record(id), 'rule', 'made')
    oldest[#oldest + 1] = f[1]
    oldest[#oldest + 1] = f[2]
  end
end
return { redis.call('HGETALL', rules), oldest }
