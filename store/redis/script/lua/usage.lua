-- Histories: the use of a key by periods, and the events of thresholds, as migrate.History describes.
-- They are for takes of windows, and written in the step that charges these.
--
-- The history is a hash. Field "cur" is the current period, any other the start and the end of one:
--
--   cur                                 1767225600000000 1767229200000000 85 80,
--   1767222000000000 1767225600000000   12  pro               used, the thresholds that were reached, and the plan
--   1767218400000000 1767222000000000   7                     without one: it is that of the names
--   of                                  the names of the key, as migrate.Usage writes them
--
-- So a history without a change of plan is as versions write and read it that know no plans of periods.
--
-- The sorted set of usages has the keys of the histories of this partition, by the time at which they
-- expire. That of events has their IDs in order, and the hash of events by ID
--
--   threshold used of start end at names

local MOST_USED = 2 ^ 53 - 1
local MAX_EVENTS = 65536
metering.DAYS = 259200000000 -- by so much the lengths of calendar months differ

-- metering.read reads the arguments of a take with a history.
function metering.read(p, number, text)
  local m = { keep = number(), of = number(), notify = {} }
  for i = 1, number() do
    m.notify[i] = number()
  end
  m.base, m.names = text(), text()
  p.meter = m
end

-- metering.load reads the current period.
function metering.load(p)
  local m = p.meter
  local found = call('HMGET', m.key, 'cur', 'of')
  m.known = found[2]
  local start, stop, used, fired = match(found[1] or '', '^(%d+) (%d+) (%d+) ([%d,]*)$')
  if start then
    m.start, m.stop, m.used, m.fired = tonumber(start), tonumber(stop), tonumber(used), fired
  elseif found[1] then
    foreign(found[1])
  end
end

-- metering.before remembers how much is used before a take is decided.
function metering.before(p, now)
  local at = p.old or p
  p.meter.before = p.kind.used(at, at.st, now)
end

-- oldest returns the field of the period that ended first.
local function oldest(fields)
  local first, first_start, first_stop, count = nil, nil, nil, 0
  for _, field in ipairs(fields) do
    local start, stop = match(field, '^(%d+) (%d+)$')
    if start then
      count, start, stop = count + 1, tonumber(start), tonumber(stop)
      if not first or stop < first_stop or stop == first_stop and start < first_start then
        first, first_start, first_stop = field, start, stop
      end
    end
  end
  return first, count
end

-- plan_of returns the plan in the names of a key: the last of five texts, each after its length as uvarint.
local function plan_of(names)
  local at, text = 1, ''
  for _ = 1, 5 do
    local length, scale, byte = 0, 1, 0
    repeat
      byte = string.byte(names, at) or 0
      length, scale, at = length + byte % 128 * scale, scale * 128, at + 1
    until byte < 128
    text, at = string.sub(names, at, at + length - 1), at + length
  end
  return text
end

-- name_plans gives the periods that have no plan that of the names of the key, before these change.
local function name_plans(m)
  local plan = plan_of(m.known)
  if plan == plan_of(m.names) then
    return
  end
  local all = call('HGETALL', m.key)
  for i = 1, #all, 2 do
    if match(all[i], '^%d+ %d+$') and match(all[i + 1], '^%d+ [%d,]*$') then
      call('HSET', m.key, all[i], all[i + 1] .. ' ' .. plan)
    end
  end
end

-- roll makes the period from start to stop the current one. The one before has the plan of its last charge, which is
-- that of the names.
local function roll(m, start, stop)
  if m.start then
    call('HSET', m.key, int(m.start) .. ' ' .. int(m.stop), int(m.used) .. ' ' .. m.fired)
  end
  m.start, m.stop, m.used, m.fired = start, stop, 0, ''
  local field = int(start) .. ' ' .. int(stop)
  local known = call('HMGET', m.key, field)[1] -- the clock ran backwards
  if known then
    local used, fired = match(known, '^(%d+) ([%d,]*)')
    m.used, m.fired = tonumber(used or 0), fired or ''
    call('HDEL', m.key, field)
  end
  local first, count = oldest(call('HKEYS', m.key))
  while count > m.keep do
    call('HDEL', m.key, first)
    first, count = oldest(call('HKEYS', m.key))
  end
end

-- announce writes the event of a threshold, unless the outbox has it already.
local function announce(m, percent, used, now)
  local id = redis.sha1hex(m.base .. ' ' .. int(percent) .. ' ' .. int(m.start) .. ' ' .. int(m.stop))
  local last = call('ZRANGE', m.order, -1, -1, 'WITHSCORES')[2]
  local at = max(now, last and tonumber(last) + 1 or 0)
  local words = { int(percent), int(used), int(m.of), int(m.start), int(m.stop), int(now), m.names }
  if call('HSETNX', m.events, id, table.concat(words, ' ')) == 1 then
    call('ZADD', m.order, int(at), id)
  end
end

-- fire writes the events of the thresholds that are reached.
local function fire(m, used, now)
  for _, percent in ipairs(m.notify) do
    local mark = int(percent) .. ','
    if used * 100 >= percent * m.of and not string.find(',' .. m.fired, ',' .. mark, 1, true) and call('ZCARD', m.order) < MAX_EVENTS then
      m.fired = m.fired .. mark
      announce(m, percent, used, now)
    end
  end
end

-- charged returns how many units of a take that was concluded were admitted.
local function charged(p)
  if p.source then
    return p.cost + p.owed
  elseif p.op == 6 or p.op == 1 or p.op == 0 and p.allowed and not p.over then
    return p.cost
  end
  return 0
end

-- period_text returns the current period as it is written.
local function period_text(m)
  return int(m.start) .. ' ' .. int(m.stop) .. ' ' .. int(m.used) .. ' ' .. m.fired
end

-- keep_index notes when the history expires, and forgets some that have.
local function keep_index(m, expires, now)
  call('ZADD', m.index, int(expires), m.key)
  local gone = call('ZRANGE', m.index, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, 16)
  if #gone > 0 then
    call('ZREM', m.index, unpack(gone))
  end
end

-- metering.after writes what a take of a group that passed changed. It reports whether it wrote.
function metering.after(p, now, spare)
  local m, g = p.meter, p.grants
  if p.most == 0 and not g then
    return false
  end
  if p.op == 2 then -- give back
    local at = p.old or p
    local units = p.cost
    if g then
      units = g.given
    elseif p.kind.used(at, at.st, now) >= m.before then
      units = 0
    end
    if not m.start or now >= m.stop or units == 0 then
      return false
    end
    m.used = m.used - min(m.used, units)
    call('HSET', m.key, 'cur', period_text(m))
    return true
  end
  local units = g and g.charged or charged(p)
  if units == 0 then
    return false
  end
  local start, stop = window_of(p, p.st, now)
  local another = start ~= m.start or stop ~= m.stop
  if another then
    roll(m, start, stop)
  end
  m.used = min(m.used + units, MOST_USED)
  fire(m, p.kind.used(p, p.st, now), now)
  local span = stop - start
  if p.letter == 'c' then
    span = span + metering.DAYS
  end
  local keep = m.keep
  if g and g.most > 0 then
    keep = max(keep, granting.PERIODS) -- who has a rollover is found by the history
  end
  local expires = min(stop + keep * span, END)
  if m.known ~= m.names then
    if m.known then
      name_plans(m)
    end
    call('HSET', m.key, 'cur', period_text(m), 'of', m.names)
  else
    call('HSET', m.key, 'cur', period_text(m))
  end
  call('PEXPIRE', m.key, int(spare + ceildiv(max(0, expires - now), 1000)))
  if another then
    keep_index(m, expires, now)
  end
  return true
end

