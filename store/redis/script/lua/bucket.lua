-- token_bucket and leaky_bucket. The state is a string, its head and one number t:
--
--   1b 100 60000000 100|1767225600123456        requests, per in microseconds, burst
--
-- letters: b fills steadily, s in steps, h and i reserve their takes (steadily and in
-- steps, see reserve.lua), q is a leaky bucket. With
--
--   clock(now)  = now; in steps floor(now/per) * requests, the units refilled so far
--   charge      = ceil(per/requests); in steps 1
--   full        = capacity * charge
--   used        = max(0, t - clock(now))
--
-- a take of n units passes if used + n*charge <= full (and used <= max_wait), and
-- makes t = clock(now) + used + n*charge. A leaky bucket delays it by used.
--
-- Above full, t is followed by the time of the write: "1b ...|1767225600123456 @1767225500000000".
--
-- full is below 2^51 and t at most 2^52, so all sums are exact. Forced debts are cut
-- at the end of time.

local function clock(l, now)
  if l.step then
    return floor(now / l.per) * l.requests
  end
  return now
end

-- unclock returns the first microsecond at which the bucket's clock has reached c.
local function unclock(l, c)
  if l.step then
    return ceildiv(c, l.requests) * l.per
  end
  return c
end

local function in_use(l, t, now)
  return max(0, t - clock(l, now))
end

local function room(l, used)
  if used >= l.full or used > l.wait then
    return 0
  end
  return floor((l.full - used) / l.charge)
end

local function bucket_expiry(l, t)
  if t <= 0 then
    return 0
  end
  return unclock(l, t)
end

local function bucket_retry(l, t, now, cost)
  local ready = max(t + cost * l.charge - l.full, t - l.wait)
  return max(0, unclock(l, ready) - now)
end

local function bucket_add(l, t, now, cost)
  local c = clock(l, now)
  local most = clock(l, END)
  return min(c + max(0, t - c) + min(cost * l.charge, most), most)
end

-- reserved_time returns now, or the time of the newest reservation if that is later.
local function reserved_time(st, now)
  return st.log and max(now, tail(st.log) or 0) or now
end

-- bucket_full reports whether the bucket has more used than its capacity, and returns the t of a
-- full one.
local function bucket_full(l, st, now)
  local t = clock(l, reserved_time(st, now)) + l.full
  return st.t > t, t
end

-- bucket_until returns when at most level is used, by the bucket's clock, if no lent or reserved
-- units come back.
local function bucket_until(l, st, now, level)
  local at = reserved_time(st, now)
  local t, ends = (st.loans and lending or l.kind).ends(l, st, at)
  local kept = 0
  for _, e in ipairs(ends) do
    kept = kept + e.n
  end
  for _, e in ipairs(ends) do
    local ready = max(at, unclock(l, t - level))
    if kept * l.charge <= level and ready < e.at then
      return ready
    end
    t, kept = max(t, clock(l, e.at) + kept * l.charge), kept - e.n
  end
  return max(at, unclock(l, max(0, t - level)))
end

-- level_allowed returns how much of old may be used, by its clock, while left units of p may be.
local function level_allowed(p, old, left)
  if p.step or old.step then
    if not p.step then
      left = min(left, floor(p.wait / p.charge))
    end
    return left * old.charge
  end
  return muldown(min(left * p.charge, p.wait), old.charge, p.charge)
end

local function bucket_numbers(l, words)
  local requests, per, burst = match(words, '^ (%d+) (%d+) (%d+)$')
  l.requests, l.per, l.most = tonumber(requests), tonumber(per), tonumber(burst)
  l.step = l.letter == 's' or l.letter == 'i'
  l.wait = l.wait or huge
  if l.letter == 'q' then
    l.most = l.most + 1
  end
  if l.requests == 0 then
    l.most = 0
  end
  l.charge = 1
  if not l.step and l.most > 0 then
    l.charge = ceildiv(l.per, l.requests)
  end
  l.full = l.most * l.charge
end

-- left_by returns the t that a take left, by its decision undo; if the debt of a bucket with steps
-- is not known exactly, the least possible t.
local function left_by(l, undo)
  if not l.step then
    return undo.reset
  end
  return max(clock(l, undo.at) + undo.used, (floor(undo.reset / l.per) - 1) * l.requests + 1)
end

kinds.b = {
  numbers = bucket_numbers,
  blank = function()
    return { t = 0 }
  end,
  decode = function(text)
    local t = tonumber(text)
    if not t or not (t >= 0 and t <= 2 ^ 53) then -- nan and inf are numbers too
      foreign(text)
    end
    return { t = t }
  end,
  save = function(key, st, l, ttl)
    call('SET', key, l.head .. '|' .. int(st.t) .. suffix(st), 'PX', ttl)
  end,
  untouched = function(st)
    return st.t == 0
  end,
  used = function(l, st, now)
    return ceildiv(in_use(l, st.t, now), l.charge)
  end,
  fits = function(l, st, now, cost)
    local used = in_use(l, st.t, now)
    return used + cost * l.charge <= l.full and used <= l.wait
  end,
  report = function(l, st, now)
    return room(l, in_use(l, st.t, now)), max(0, bucket_expiry(l, st.t) - now)
  end,
  retry = function(l, st, now, cost)
    return bucket_retry(l, st.t, now, cost)
  end,
  add = function(l, st, now, cost)
    st.t = bucket_add(l, st.t, now, cost)
  end,
  -- Units that were refilled since the earlier take may have passed again, so only the rest of it
  -- is given back.
  sub = function(l, st, now, cost, undo)
    local units = cost * l.charge
    local c = clock(l, now)
    if undo and c > clock(l, undo.at) then
      units = min(units, max(0, left_by(l, undo) - c))
    end
    st.t = max(0, st.t - units)
  end,
  expiry = function(l, st)
    return bucket_expiry(l, st.t)
  end,
  dated = function()
    return 0
  end,
  shift = function(l, st, from, to)
    local used = in_use(l, st.t, from)
    st.t = used > 0 and clock(l, to) + used or 0
  end,
  full = bucket_full,
  -- ends returns t, and a list of the units that are not refilled and until when. A plain bucket
  -- has none.
  ends = function(_, st)
    return st.t, {}
  end,
}
kinds.s = kinds.b

kinds.q = {
  delay = function(l, st, now)
    return in_use(l, st.t, now)
  end,
  -- Only the last place in a queue can be removed without moving others.
  sub = function(l, st, _, cost, undo)
    if not undo or undo.reset == st.t then
      st.t = max(0, st.t - cost * l.charge)
    end
  end,
}
for name, f in pairs(kinds.b) do
  kinds.q[name] = kinds.q[name] or f
end
