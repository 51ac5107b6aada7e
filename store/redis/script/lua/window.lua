-- fixed_window. The state is a string, its head, the start of the window, the units
-- taken in it, and for windows of the calendar their end:
--
--   1w 100 60000000|1767225600000000 12                   requests, per in microseconds
--   1c 100 3 Europe/Berlin|1767225600000000 12 1769904000000000
--
-- If the state was carried over from other numbers and counts more than requests, the rest counts
-- in the windows after it, by requests in each; then it ends with the time of its write:
--
--   1w 100 60000000|1767225600000000 250 @1767225601000000
--
-- A window from the future is moved to now when a take finds it, and floats: its start is no
-- multiple of per, and for a calendar no whole second.
--
-- letters: w windows at multiples of per since 1970, f from the first take, c of the
-- calendar, d as w, but what was debited beyond requests counts as used in the windows
-- that follow, less requests for each. A take of n units passes if used + n <= requests.
--
-- Redis has no time zones, so the arguments have the bounds of the windows around the time of
-- the call. If the server's time lies outside of them, the script answers STINT-WINDOW.

local MAX_DEBT = 64 -- a window counts up to this many times its limit

-- window returns the start and end of the window that contains now.
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

-- bounded reports whether the arguments have the bounds of the calendar window at a time.
local function bounded(l, at)
  return l.bounds and l.bounds[1] <= at and at < l.bounds[#l.bounds]
end

-- window_stop returns the end of the window of a state.
local function window_stop(l, st)
  if l.letter == 'c' then
    return st.stop or foreign('a window of a calendar without an end')
  end
  return st.t + l.per
end

local function window_expiry(l, st)
  if st.n == 0 then
    return 0
  elseif st.written or l.letter == 'd' then
    return window_stop(l, st) + (spans(l, st.n) - 1) * length(l)
  end
  return window_stop(l, st)
end

-- floats reports whether a window was moved to another time, so that the next one begins a whole
-- length later. The limit's own windows begin at multiples of per, those of a calendar at a whole
-- second.
local function floats(l, start)
  return start % (l.letter == 'c' and 1000000 or l.per) ~= 0
end

-- window_of returns the window that counts at now. If time ran backwards, a later window that the
-- state has seen stays in force.
local function window_of(l, st, now)
  if st.n > 0 and (l.letter == 'f' or floats(l, st.t)) and now < window_expiry(l, st) then
    local size = length(l)
    local start = st.t + floor(max(0, now - st.t) / size) * size
    return start, start + size
  elseif l.letter == 'f' then
    return now, now + l.per
  end
  if st.stop and st.n > 0 and now < st.stop then -- also of another calendar, whose bounds are not in the arguments
    return st.t, st.stop
  end
  local start, stop = window(l, now)
  if st.n > 0 and st.t > start and not floats(l, st.t) then
    return st.t, window_stop(l, st)
  end
  return start, stop
end

-- window_since is window_of for a time since the state's window began. If the arguments lack the bounds of
-- the calendar at that time, all windows after that of the state have one length, as for window_used.
local function window_since(l, st, now)
  if l.letter ~= 'c' or now < window_stop(l, st) or bounded(l, now) then
    return window_of(l, st, now)
  end
  local size = length(l)
  local start = st.stop + floor((now - st.stop) / size) * size
  return start, start + size
end

-- window_used needs no bounds of a calendar: the arguments have only those of the take's own.
local function window_used(l, st, now)
  if st.n == 0 then
    return 0
  end
  local stop = window_stop(l, st)
  if now < stop then
    return st.n
  elseif not st.written and l.letter ~= 'd' then
    return 0
  end
  return max(0, st.n - l.most * min(floor((now - stop) / length(l)) + 1, floor(st.n / l.most) + 1))
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
    if st.written and used > 0 then
      reset = window_expiry(l, st) - now
    elseif l.letter ~= 'f' or used > 0 then
      local _, stop = window_of(l, st, now)
      reset = stop - now
    end
    return max(0, l.most - used), reset
  end,
  retry = function(l, st, now, cost)
    return l.kind.wait(l, st, now, l.most - cost)
  end,
  wait = function(l, st, now, left)
    if st.written then
      return window_stop(l, st) + (spans(l, st.n - left) - 1) * length(l) - now
    elseif st.stop then
      return st.stop - now
    end
    local _, stop = window_of(l, st, now)
    return stop - now
  end,
  add = function(l, st, now, cost)
    local used = window_used(l, st, now)
    local start, stop = window_of(l, st, now)
    st.t, st.n = start, min(used + cost, st.written and defer_most(l, start) or max(used, MAX_DEBT * l.most))
    if l.letter == 'c' then
      st.stop = stop
    end
  end,
  deferred = function(st)
    return st.n
  end,
  less = function(l, st)
    st.n = min(st.n, defer_most(l, st.t))
  end,
  dated = function(_, st)
    return st.n > 0 and st.t or 0
  end,
  shift = function(l, st, from, to)
    local start = window_since(l, st, from)
    st.t, st.n = max(0, start + to - from), window_used(l, st, from)
    if l.letter == 'c' then
      st.t = floats(l, st.t) and st.t or st.t + 1
      st.stop = st.t + length(l)
    end
  end,
  lazy = true, -- load does not roll, as used does not need it
  roll = function(l, st, now)
    local start, stop = window_since(l, st, now)
    st.t, st.n = start, window_used(l, st, now)
    if l.letter == 'c' then
      st.stop = stop
    end
    if st.n == 0 then
      st.t, st.stop = 0, nil
    end
    if st.n <= l.most then
      plain(l, st, now)
    end
  end,
  blend = function(p, st, now, units)
    local start, stop = window_of(p, st, now)
    st.t, st.n = start, min(units, defer_most(p, start))
    if p.letter == 'c' then
      st.stop = stop
    end
  end,
  sub = function(l, st, _, cost, undo)
    if not undo or undo.reset == window_stop(l, st) then
      -- Units that are lent stay charged: only the node that has them can give them back.
      local least = st.loans and min(st.n, lending.lent(st.loans)) or 0
      st.n = max(least, st.n - cost)
    end
  end,
  expiry = window_expiry,
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

-- debt_turn moves the state to the window that counts at now.
local function debt_turn(l, st, now)
  st.n, st.t = window_used(l, st, now), (window_of(l, st, now))
end

kinds.d = {
  report = function(l, st, now)
    local _, stop = window_of(l, st, now)
    return l.most - window_used(l, st, now), stop - now
  end,
  wait = function(l, st, now, left)
    return st.t + spans(l, st.n - left) * l.per - now
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
}
setmetatable(kinds.d, { __index = kinds.w })
