-- A token bucket whose takes are reserved until they are settled or given back. After t
-- its state lists the reservations, as (time of the take, units):
--
--   1h 100 60000000 100|1767225600123456 1767225600100000 2 1767225600110000 1
--
--   reserved    = units of all takes that are neither settled nor given back
--   used        = max(t - clock(now), reserved*charge)
--
-- so that the bucket refills only to burst minus the reserved units. A reservation that
-- nobody ended for MAX_RESERVATION counts as settled. Time never goes back before the newest.

local MAX_RESERVATION = 600 * 1000000 -- microseconds

-- reserved_at returns t at now, and the time up to which reservations are too old.
local function reserved_at(l, st, now)
  local t, old, q = st.t, now - MAX_RESERVATION, st.log
  if q.first > q.last then
    return t, old
  end
  local reserved = q.total
  for i = q.first, q.last do
    if q.at[i] > old then
      break
    end
    t = max(t, clock(l, q.at[i] + MAX_RESERVATION) + reserved * l.charge)
    reserved = reserved - q.n[i]
  end
  return max(t, clock(l, now) + reserved * l.charge), old
end

local function reserved_tidy(l, st, now)
  local t, old = reserved_at(l, st, now)
  st.t = t
  prune(st.log, old)
end

-- reserved_retry returns when cost units fit if no reservation is settled or given back: enough of the
-- oldest reservations must become too old.
local function reserved_retry(l, st, now, cost)
  local t, old = reserved_at(l, st, now)
  local q, reserved = st.log, st.log.total
  for i = q.first, q.last do
    if q.at[i] > old then
      if reserved + cost <= l.most then
        break
      end
      t = max(t, clock(l, q.at[i] + MAX_RESERVATION) + reserved * l.charge)
    end
    reserved = reserved - q.n[i]
  end
  return bucket_retry(l, t, now, cost)
end

-- free ends up to cost units of the reservation made at a time, and returns how many.
local function free(l, st, now, cost, at)
  reserved_tidy(l, st, reserved_time(st, now))
  local before = st.log.total
  if before == 0 then
    return 0
  end
  remove(st.log, at, cost, false)
  return before - st.log.total
end

kinds.h = {
  full = bucket_full,
  dated = function(_, st)
    return tail(st.log) or 0
  end,
  shift = function(l, st, from, to)
    kinds.b.shift(l, st, from, to)
    move(st.log, to - from)
  end,
  ends = function(l, st, at)
    local list = {}
    for i = st.log.first, st.log.last do
      local stop = st.log.at[i] + MAX_RESERVATION
      if stop > at then
        list[#list + 1] = { at = stop, n = st.log.n[i] }
      end
    end
    return reserved_at(l, st, at), list
  end,
  numbers = bucket_numbers,
  blank = function()
    return { t = 0, log = new_queue() }
  end,
  decode = function(text)
    local t, list = match(text, '^(%d+)(.*)$')
    local st = { t = tonumber(t), log = new_queue() }
    for at, n in string.gmatch(list, ' (%d+) (%d+)') do
      push(st.log, tonumber(at), tonumber(n))
    end
    return st
  end,
  save = function(key, st, l, ttl)
    local text = { l.head .. '|' .. int(st.t) }
    for i = st.log.first, st.log.last do
      text[#text + 1] = int(st.log.at[i]) .. ' ' .. int(st.log.n[i])
    end
    call('SET', key, table.concat(text, ' ') .. written_text(st), 'PX', ttl)
  end,
  untouched = function(st)
    return st.t == 0 and st.log.total == 0
  end,
  used = function(l, st, now)
    return ceildiv(in_use(l, reserved_at(l, st, reserved_time(st, now)), now), l.charge)
  end,
  fits = function(l, st, now, cost)
    local at = reserved_time(st, now)
    local t = reserved_at(l, st, at)
    return in_use(l, t, at) + cost * l.charge <= l.full
  end,
  -- Reservations count as if they were settled now, as it is unknown when they will be.
  report = function(l, st, now)
    local at = reserved_time(st, now)
    local t = reserved_at(l, st, at)
    local reset = max(0, bucket_expiry(l, t) - at)
    if reset > 0 then
      reset = reset + at - now
    end
    return room(l, in_use(l, t, at)), reset, at
  end,
  retry = function(l, st, now, cost)
    local at = reserved_time(st, now)
    return reserved_retry(l, st, at, cost) + at - now
  end,
  add = function(l, st, now, cost)
    local at = reserved_time(st, now)
    reserved_tidy(l, st, at)
    st.t = bucket_add(l, st.t, at, cost)
  end,
  charge = function(l, st, now, cost)
    local at = reserved_time(st, now)
    kinds.h.add(l, st, at, cost)
    push(st.log, at, cost)
  end,
  sub = function(l, st, now, cost, undo)
    if undo then
      local freed = free(l, st, now, cost, undo.at) -- brings t up to now
      st.t = max(0, st.t - freed * l.charge)
      return
    end
    local at = reserved_time(st, now)
    reserved_tidy(l, st, at)
    st.t = max(0, st.t - cost * l.charge)
    local left = floor(in_use(l, st.t, at) / l.charge)
    if st.log.total > left then
      remove(st.log, 0, st.log.total - left, true)
    end
  end,
  settle = function(l, st, now, cost, undo)
    free(l, st, now, cost, undo.at)
  end,
  expiry = function(l, st)
    local last = tail(st.log)
    if not last then
      return bucket_expiry(l, st.t)
    end
    return bucket_expiry(l, (reserved_at(l, st, last + MAX_RESERVATION)))
  end,
}
kinds.i = kinds.h
