-- Stores what a node has, and returns what all nodes have.
-- KEYS: nodes
-- ARGV: name of the node; its revision; the milliseconds after which a silent node is forgotten
--
-- Returns the time in milliseconds since 1970, then for each node its name, its revision, and the
-- milliseconds since it was seen.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. string.format('%d', now))
local all, answer = redis.call('HGETALL', KEYS[1]), { string.format('%d', now) }
for i = 1, #all, 2 do
  local revision, seen = string.match(all[i + 1], '^(%d+) (%d+)$')
  local age = seen and now - seen
  if not age or age > tonumber(ARGV[3]) then
    redis.call('HDEL', KEYS[1], all[i])
  else
    answer[#answer + 1] = all[i]
    answer[#answer + 1] = revision
    answer[#answer + 1] = string.format('%d', math.max(age, 0))
  end
end
return answer
