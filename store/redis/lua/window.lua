-- fixed_window. The state is a string, its head, the start of the window, the units
-- taken in it, and for windows of the calendar their end:
--
--   1w 100 60000000|1767225600000000 12                   requests, per in microseconds
--   1c 100 3 Europe/Berlin|1767225600000000 12 1769904000000000
--
-- letters: w windows at multiples of per since 1970, f from the first take, c of the
-- calendar, d as w, but what was debited beyond requests counts as used in the windows
-- that follow, less requests for each. A take of n units passes if used + n <= requests.
--
-- Redis knows no time zones, so a call brings the bounds of the windows around its
-- time, and is told to bring others where the server's time lies outside of them.

local MAX_DEBT = 64 -- how many times its limit a window can count up to

-- window returns the start and end of the window that holds now.
local function window(l, now)
  if l.letter == 'c' then
    for i = 1, #l.bounds - 1 do
      if l.bounds[i] <= now and now < l.bounds[i + 1] then
        return l.bounds[i], l.bounds[i + 1]
      end
    end
    error('STINT-WINDOW ' .. int(now), 0)
  end
  local start = floor(now / l.per) * l.per
  return start, start + l.per
end

-- window_of returns the window that counts at now. One that the state already saw
-- stays in force where time ran backwards.
local function window_of(l, st, now)
  if l.letter == 'f' then
    if st.n > 0 and now < st.t + l.per then
      return st.t, st.t + l.per
    end
    return now, now + l.per
  end
  if st.stop and st.n > 0 and now < st.stop then -- also of another calendar, whose bounds nobody brought
    return st.t, st.stop
  end
  local start, stop = window(l, now)
  if st.n > 0 and st.t > start then
    return st.t, st.stop or st.t + l.per
  end
  return start, stop
end

local function window_used(l, st, now)
  if st.n == 0 then
    return 0
  end
  if l.letter == 'c' then -- also of another calendar, whose bounds nobody brought
    if now < st.stop then
      return st.n
    end
    return 0
  end
  if window_of(l, st, now) == st.t then
    return st.n
  end
  return 0
end

kinds.w = {
  numbers = function(l, words)
    local requests, per = match(words, '^ (%d+) (%d+)')
    l.most, l.per = tonumber(requests), tonumber(per)
  end,
  blank = function()
    return { t = 0, n = 0 }
  end,
  decode = function(text)
    local t, n, stop = match(text, '^(%d+) (%d+) ?(%d*)$')
    if not t then
      foreign(text)
    end
    return { t = tonumber(t), n = tonumber(n), stop = tonumber(stop) }
  end,
  save = function(key, st, l, ttl)
    local text = l.head .. '|' .. int(st.t) .. ' ' .. int(st.n)
    if st.stop then
      text = text .. ' ' .. int(st.stop)
    end
    call('SET', key, text .. suffix(st), 'PX', ttl)
  end,
  untouched = function(st)
    return st.n == 0
  end,
  used = window_used,
  fits = function(l, st, now, cost)
    return window_used(l, st, now) + cost <= l.most
  end,
  report = function(l, st, now)
    local used = window_used(l, st, now)
    local reset = 0
    if l.letter ~= 'f' or used > 0 then
      local _, stop = window_of(l, st, now)
      reset = stop - now
    end
    return max(0, l.most - used), reset
  end,
  retry = function(l, st, now)
    local _, stop = window_of(l, st, now)
    return stop - now
  end,
  add = function(l, st, now, cost)
    local used = window_used(l, st, now)
    local start, stop = window_of(l, st, now)
    st.t, st.n = start, min(used + cost, MAX_DEBT * l.most)
    if l.letter == 'c' then
      st.stop = stop
    end
  end,
  sub = function(l, st, _, cost, undo)
    if not undo or undo.reset == (st.stop or st.t + l.per) then
      st.n = max(0, st.n - cost)
    end
  end,
  expiry = function(l, st)
    if st.n == 0 then
      return 0
    end
    return st.stop or st.t + l.per
  end,
  -- none is the reset_after of a limit of 0 requests.
  none = function(l, now)
    if l.letter == 'f' then
      return 0
    end
    local _, stop = window(l, now)
    return stop - now
  end,
}
kinds.f, kinds.c = kinds.w, kinds.w

-- debt_used returns what is used at now of a window that carries its debt: each window
-- that has begun since works off its part.
local function debt_used(l, st, now)
  if st.n == 0 then
    return 0
  end
  local start = window_of(l, st, now)
  if start == st.t then
    return st.n
  end
  return max(0, st.n - l.most * min((start - st.t) / l.per, floor(st.n / l.most) + 1))
end

-- debt_turn makes the state that of the window that counts at now.
local function debt_turn(l, st, now)
  st.n, st.t = debt_used(l, st, now), (window_of(l, st, now))
end

kinds.d = {
  used = debt_used,
  fits = function(l, st, now, cost)
    return debt_used(l, st, now) + cost <= l.most
  end,
  report = function(l, st, now)
    local _, stop = window_of(l, st, now)
    return l.most - debt_used(l, st, now), stop - now
  end,
  retry = function(l, st, now, cost)
    local _, stop = window_of(l, st, now)
    return stop - now + floor((debt_used(l, st, now) + cost - l.most - 1) / l.most) * l.per
  end,
  add = function(l, st, now, cost)
    debt_turn(l, st, now)
    st.n = min(st.n + cost, UNITS, l.most * floor((END - st.t) / l.per))
  end,
  sub = function(l, st, now, cost, undo)
    debt_turn(l, st, now)
    if not undo or undo.reset == st.t + l.per then
      st.n = max(0, st.n - cost)
    end
  end,
  expiry = function(l, st)
    if st.n == 0 then
      return 0
    end
    return st.t + l.per + floor((st.n - 1) / l.most) * l.per
  end,
}
setmetatable(kinds.d, { __index = kinds.w })
