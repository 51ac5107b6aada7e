-- sliding_log. The state is a list: its head, and then time and units of every take of
-- the last per, oldest first.
--
--   1l 5 1000000|1767225600000000 3 1767225600100000     requests, per in microseconds
--   1767225600000000 2 1767225600100000 1
--
-- After the bar follow the time up to which the list was pruned, the units of all its
-- entries and the time of the newest. So a take reads the head and the oldest entry,
-- whatever the length: a list has fast access to both ends and needs 12 to 14 bytes for an
-- entry, a sorted set 31 (of 100 entries) to 129 (of 10,000). Entries that are
-- a whole per old no longer count; each is read once more when it is dropped. A take of n
-- units passes if the units newer than now - per and n together are at most requests, and
-- the newest entry is min_interval old.
--
-- After these three may follow the largest requests under which the list was used since it was
-- empty, and the time of the last write of a list that was carried over from other numbers and
-- has more than requests. Then it is one entry, of which requests are worked off each per:
--
--   1l 5 1000000|1767225600000000 12 1767225600100000 20 @1767225600100000

local CHUNK = 64 -- number of entries that are read at once

-- entry returns time and units of the ith oldest entry, nil after the last.
local function entry(st, i)
  if st.last > 0 and i > st.loaded and not st.whole then
    local from = (st.headless and 0 or 1) + 2 * st.loaded
    local list = call('LRANGE', st.key, from, from + 2 * CHUNK - 1)
    for j = 1, #list, 2 do
      st.loaded = st.loaded + 1
      st.at[st.loaded], st.n[st.loaded] = tonumber(list[j]), tonumber(list[j + 1])
    end
  end
  return st.at[i], st.n[i]
end

local function log_steady(st, now)
  return max(now, st.t, st.last)
end

-- log_newer returns the units after old.
local function log_newer(st, old)
  if st.last <= old then
    return 0
  end
  local left, i = st.total, 1
  local at, n = entry(st, 1)
  while at and at <= old do
    left, i = left - n, i + 1
    at, n = entry(st, i)
  end
  return left
end

-- Changes of a list are written at once, as the call has passed its test by then. But a list that
-- is made anew is written with its first change: st.whole means that all of its entries are loaded
-- and none is stored.

local function store_whole(st)
  if not st.whole then
    return
  end
  call('DEL', st.key)
  st.missing, st.headless = st.total == 0, false
  local words = { '' } -- save writes the head
  for i = 1, st.loaded do
    words[2 * i], words[2 * i + 1] = int(st.at[i]), int(st.n[i])
  end
  if not st.missing then
    for i = 1, #words, 1000 do
      call('RPUSH', st.key, unpack(words, i, min(i + 999, #words)))
    end
  end
  st.whole = nil
end

-- drop removes the count oldest entries, which have that many units together.
local function drop(st, count, units)
  if count == 0 then
    return
  end
  store_whole(st)
  call('LTRIM', st.key, (st.headless and 0 or 1) + 2 * count, -1)
  st.headless, st.total, st.loaded = true, st.total - units, st.loaded - count
  local at, n = {}, {}
  for i = 1, st.loaded do
    at[i], n[i] = st.at[count + i], st.n[count + i]
  end
  st.at, st.n = at, n
  if st.total == 0 then
    st.last = 0
  end
end

-- set_oldest sets the units of the oldest entry.
local function set_oldest(st, n)
  store_whole(st)
  call('LSET', st.key, st.headless and 1 or 2, n)
  st.total = st.total + n - st.n[1]
  st.n[1] = n
end

local function log_prune(st, old)
  local count, units = 0, 0
  local at, n = entry(st, 1)
  while at and at <= old do
    count, units = count + 1, units + n
    at, n = entry(st, count + 1)
  end
  drop(st, count, units)
  if st.total == 0 then
    st.larger = 0
  end
end

local function log_tidy(l, st, now)
  if st.last == 0 then
    return
  end
  local t = log_steady(st, now)
  local at = entry(st, 1)
  if at <= t - l.per then
    st.t, st.dirty = max(st.t, t), true
    log_prune(st, t - l.per)
  end
end

-- put_head writes the head of the list.
local function put_head(st, l)
  local text = l.head .. '|' .. int(st.t) .. ' ' .. int(st.total) .. ' ' .. int(st.last)
  if st.larger > l.most and st.total > 0 then
    text = text .. ' ' .. int(st.larger)
  end
  text = text .. written_text(st)
  if st.headless then
    call('LPUSH', st.key, text)
  else
    call('LSET', st.key, 0, text)
  end
  st.headless = false
end

local function log_push(st, at, n)
  store_whole(st)
  n = min(n, 2 ^ 52 - 1 - st.total)
  if n == 0 then
    return
  end
  if st.last == at and st.total > 0 then
    local newest = tonumber(call('LINDEX', st.key, -1)) + n
    call('LSET', st.key, -1, newest)
    if st.at[st.loaded] == at then
      st.n[st.loaded] = newest
    end
  else
    if st.missing then
      call('RPUSH', st.key, '', at, n) -- save writes the head
      st.missing = false
    else
      call('RPUSH', st.key, at, n)
    end
  end
  st.total, st.last = st.total + n, at
end

-- keep_entries bounds the number of entries by moving the oldest units to the next entry, which
-- only makes a limit stricter. Only a debt can exceed the bound.
local function keep_entries(st, most)
  if st.total <= most then
    return
  end
  local length = call('LLEN', st.key)
  local over = (length - (st.headless and 0 or 1)) / 2 - most
  if over <= 0 then
    return
  end
  local units = 0
  for i = 1, over do
    local _, n = entry(st, i)
    units = units + n
  end
  entry(st, over + 1)
  drop(st, over, units)
  set_oldest(st, st.n[1] + units)
end

-- keep_newest drops the oldest units above most.
local function keep_newest(_, st, most)
  local over, count, units = st.total - most, 0, 0
  if over <= 0 then
    return
  end
  local _, n = entry(st, 1)
  while n and n <= over do
    over, count, units = over - n, count + 1, units + n
    _, n = entry(st, count + 1)
  end
  drop(st, count, units)
  if over > 0 then
    set_oldest(st, st.n[1] - over)
  end
end

-- take_back removes up to n units from the entry of the time at, or, if at is nil, from the newest
-- entries. It searches from the newest on, as most undone takes are recent.
local function take_back(st, at, n)
  store_whole(st)
  local first = st.headless and 0 or 1
  local stop = call('LLEN', st.key) - 1
  while n > 0 and stop > first do
    local start = max(first, stop + 1 - 2 * CHUNK)
    local list = call('LRANGE', st.key, start, stop)
    for i = #list - 1, 1, -2 do
      local entry_at, units = tonumber(list[i]), tonumber(list[i + 1])
      if at and entry_at < at then
        return
      end
      if not at or entry_at == at then
        local less = min(n, units)
        n, st.total = n - less, st.total - less
        local index = start + i - 1
        if less < units then
          call('LSET', st.key, index + 1, units - less)
        else
          call('LSET', st.key, index, 'x')
          call('LSET', st.key, index + 1, 'x')
          call('LREM', st.key, -2, 'x')
        end
        if n == 0 then
          return
        end
      end
    end
    stop = start - 1
  end
end

-- log_replace replaces all entries by one, or by none if n is 0.
local function log_replace(st, at, n)
  st.at, st.n, st.loaded, st.total, st.last, st.whole = { at }, { n }, 1, n, at, true
  if n == 0 then
    st.at, st.n, st.loaded, st.last, st.larger = {}, {}, 0, 0, 0
  end
end

-- log_until returns when the over oldest units are gone.
local function log_until(l, st, over)
  if st.written then
    return st.last + max(0, spans(l, over)) * l.per
  end
  local ready, i = 0, 1
  while over > 0 do
    local at, n = entry(st, i)
    if not at then
      break
    end
    over, i, ready = over - n, i + 1, at + l.per
  end
  return ready
end

-- log_wait returns when at most left units count of a list under other numbers. The units in use
-- stand at the newest entry, and each per after it works off requests of them; meanwhile entries
-- leave by the per of old.
local function log_wait(p, old, now, left)
  local st, per = old.st, p.per
  local function leaves(k, rest)
    local ready = max(now, log_until(old, st, st.total - rest - k * p.most))
    return k > 0 and max(ready, st.last + k * per) or ready
  end
  local low = floor(max(0, now - st.last) / per)
  local high = low + spans(p, st.total) + 1
  while low < high do
    local k = floor((low + high) / 2)
    if leaves(k, left) < st.last + (k + 1) * per then
      high = k
    else
      low = k + 1
    end
  end
  local ready = leaves(low, left)
  if p.min_interval > 0 then -- after the entries that still count then
    ready = min(max(ready, st.last + low * per + p.min_interval), leaves(low, 0), st.last + (low + 1) * per)
  end
  return ready
end

kinds.l = {
  numbers = function(l, words)
    local requests, per = match(words, '^ (%d+) (%d+)$')
    l.most, l.per = tonumber(requests), tonumber(per)
    l.min_interval = l.wait or 0
  end,
  blank = function(key)
    return { key = key, t = 0, total = 0, last = 0, larger = 0, at = {}, n = {}, loaded = 0, missing = true }
  end,
  load = function(key)
    local list = call('LRANGE', key, 0, 2)
    local st = kinds.l.blank(key)
    if not list[1] then
      return st
    end
    local head, rest = parse(list[1])
    rest, st.written = read_written(rest)
    local t, total, last, larger = match(rest, '^(%d+) (%d+) (%d+) ?(%d*)$')
    st.t, st.total, st.last, st.missing = tonumber(t), tonumber(total), tonumber(last), false
    st.larger = tonumber(larger) or 0
    if list[3] then
      st.at[1], st.n[1], st.loaded = tonumber(list[2]), tonumber(list[3]), 1
    end
    return st, head
  end,
  save = function(key, st, l, ttl)
    store_whole(st)
    if st.missing then
      call('RPUSH', key, '')
      st.missing = false
    end
    put_head(st, l)
    call('PEXPIRE', key, ttl)
  end,
  deferred = function(st)
    return st.total
  end,
  less = function(l, st)
    local most = defer_most(l, st.last)
    if st.total > most then
      log_replace(st, st.last, most)
    end
  end,
  dated = function(_, st)
    return max(st.t, st.last)
  end,
  shift = function(_, st, from, to)
    local by, i = to - from, 1
    while entry(st, i) do
      i = i + 1
    end
    st.t = max(0, st.t + by)
    if st.total > 0 then
      by = max(by, -st.at[1])
      for j = 1, st.loaded do
        st.at[j] = st.at[j] + by
      end
      st.last = st.last + by
    end
    st.whole = true
  end,
  roll = function(l, st, now)
    entry(st, 1)
    local k = min(floor(max(0, now - st.last) / l.per), spans(l, st.total))
    local left = max(0, st.total - k * l.most)
    if k > 0 then
      log_replace(st, st.last + k * l.per, left)
    end
    if left <= l.most then
      plain(l, st, now)
    end
  end,
  blend = function(p, st, now, units)
    local old = p.old
    log_replace(st, old.st.deferred and now or old.st.last, units)
    st.larger = max(old.st.larger, old.most)
  end,
  copy = function(st)
    local c = {}
    for name, value in pairs(st) do
      c[name] = value
    end
    c.at, c.n = {}, {}
    for i = 1, st.loaded do
      c.at[i], c.n[i] = st.at[i], st.n[i]
    end
    return c
  end,
  untouched = function(st)
    return st.t == 0 and st.total == 0
  end,
  used = function(l, st, now)
    return log_newer(st, log_steady(st, now) - l.per)
  end,
  fits = function(l, st, now, cost)
    local t = log_steady(st, now)
    if log_newer(st, t - l.per) + cost > l.most then
      return false
    end
    return st.last == 0 or t >= st.last + l.min_interval
  end,
  report = function(l, st, now)
    local left = max(0, l.most - log_newer(st, log_steady(st, now) - l.per))
    return left, max(0, kinds.l.expiry(l, st) - now)
  end,
  -- Enough of the oldest entries must be gone, and the newest must be min_interval old.
  retry = function(l, st, now, cost)
    if st.last == 0 then
      return 0
    end
    local ready, over, i = st.last + l.min_interval, st.total + cost - l.most, 1
    if st.written then
      ready = st.last + spans(l, over) * l.per
      if st.total > spans(l, over) * l.most then -- min_interval applies to what still counts then
        ready = ready + l.min_interval
      end
      return max(0, ready - now)
    end
    while over > 0 do
      local at, n = entry(st, i)
      if not at then
        break
      end
      over, i, ready = over - n, i + 1, max(ready, at + l.per)
    end
    return max(0, ready - now)
  end,
  wait = function(l, st, now, left)
    return log_until(l, st, st.total - left) - now
  end,
  add = function(l, st, now, cost)
    if st.written then
      log_push(st, st.last, cost)
      return
    end
    log_tidy(l, st, now)
    log_push(st, log_steady(st, now), cost)
    keep_entries(st, max(1, l.most, st.larger))
  end,
  sub = function(l, st, _, cost, undo)
    take_back(st, undo and undo.reset - l.per, cost)
    -- The loaded entries may be gone.
    st.at, st.n, st.loaded = {}, {}, 0
    st.last = 0
    if st.total > 0 then
      st.last = tonumber(call('LINDEX', st.key, -2))
    else
      st.larger = 0
    end
  end,
  expiry = function(l, st)
    if st.last == 0 then
      return 0
    elseif st.written then
      return st.last + spans(l, st.total) * l.per
    end
    return st.last + l.per
  end,
  tidy = log_tidy,
  keep_newest = keep_newest,
}
