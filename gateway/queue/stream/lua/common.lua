-- KEYS[1]  the stream
-- ARGV[1]  prefix of all other keys, in the same slot
-- ARGV[2]  time in microseconds; 0 for the clock of the server
--
-- All times are microseconds since the Unix epoch: below 2^53, so that a number of Lua has them exactly.

local stream, prefix = KEYS[1], ARGV[1]
local now = tonumber(ARGV[2])
if now == 0 then
  local t = redis.call('TIME')
  now = tonumber(t[1]) * 1000000 + tonumber(t[2])
end

local group, consumer = 'gateways', 'stint'
local due, rules = prefix .. 'due', prefix .. 'rules'

local function record(id) return prefix .. 'record:' .. id end
local function lineOf(line) return prefix .. 'line:' .. line end
local function stateOf(state) return prefix .. 'state:' .. state end
local function text(n) return string.format('%.0f', n) end
local function unfinished(state) return state == 'waiting' or state == 'claimed' end
local function counted(state) return unfinished(state) or state == 'dead' end

-- publish appends a record to the stream.
local function publish(id)
  redis.call('HSET', record(id), 'entry', redis.call('XADD', stream, '*', 'id', id, 'record', record(id)))
  redis.call('ZREM', due, id)
end

-- unpublish removes a record from the stream.
local function unpublish(id, entry)
  redis.call('ZREM', due, id)
  if entry and entry ~= '' then
    redis.call('XACK', stream, group, entry)
    redis.call('XDEL', stream, entry)
  end
end

-- schedule publishes the first record of a line when its time has come.
local function schedule(id, at)
  if at <= now then publish(id) else redis.call('ZADD', due, text(at), id) end
end

-- publishDue publishes the records whose time has come, at most 100. It returns the ID of a record whose
-- claim ran out, nil for none.
local function publishDue()
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', text(now), 'LIMIT', 0, 100)) do
    local state = redis.call('HGET', record(id), 'state')
    if state == 'claimed' then return id end
    if state == 'waiting' then publish(id) else redis.call('ZREM', due, id) end
  end
end

-- add adds to a number of a rule.
local function add(rule, what, by)
  local field = what .. ' ' .. rule
  if redis.call('HINCRBY', rules, field, by) <= 0 then redis.call('HDEL', rules, field) end
end

-- count adds a record to the numbers of its rule. size is its bytes with the overhead.
local function count(rule, state, size, by)
  if unfinished(state) then add(rule, 'waiting', by)
  elseif state == 'dead' then add(rule, 'dead', by)
  elseif state ~= '' then add(rule, 'kept', by) end
  if counted(state) then add(rule, 'bytes', by * size) end
end
