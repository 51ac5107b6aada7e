-- penalty. The state is a string: its head, a time and a number, and the time of its last write.
--
--   1p 3 900000000 86400000000 100000 60000000 600000000|1767225660000000 2 @1767225600000000
--
-- The head has the denied tries that start nothing, the length in which they count, decay (both in
-- microseconds), jitter in millionths, and the lengths of the steps in microseconds. The number is
--
--   n = level + 32 * counted       level 0 to 16, counted below 2^33
--
-- and t is the end of the last step if counted is 0, else the first counted try. penalty.go in the
-- root package describes the formulas.
--
-- The cost of a take is the number of denied tries, at most 2^47, so all sums are exact.

local LEVELS = 32

-- Of the level and the tries that count at now.
local function penalty_at(l, st, now)
  local level = min(st.n % LEVELS, #l.ladder)
  local counted = floor(st.n / LEVELS)
  local denied = counted == 0 and st.t or st.written or 0
  level = level - min(level, floor(max(0, now - denied) / l.decay))
  if now >= st.t + l.per then
    counted = 0
  end
  return level, counted
end

-- runs reports whether a step runs.
local function runs(st, now)
  return st.n > 0 and st.n < LEVELS and now < st.t
end

local function penalty_expiry(l, st)
  if st.n == 0 then
    return 0
  end
  local level = min(st.n % LEVELS, #l.ladder)
  if st.n < LEVELS then
    return st.t + level * l.decay
  end
  return max(st.t + l.per, (st.written or 0) + level * l.decay)
end

-- step_length returns how long the step of a level lasts that begins at a time.
local function step_length(l, level, at)
  local length, prime = l.ladder[level], 1048573
  local most = muldiv(length, l.jitter, 1000000)
  return length + (muldiv(most, at % prime * 386117 % prime, prime))
end

kinds.p = {
  numbers = function(l, words)
    local after, per, decay, jitter, ladder = match(words, '^ (%d+) (%d+) (%d+) (%d+)( .*)$')
    l.most, l.per, l.decay, l.jitter, l.ladder = after + 1, tonumber(per), tonumber(decay), tonumber(jitter), {}
    for step in string.gmatch(ladder, '%d+') do
      l.ladder[#l.ladder + 1] = tonumber(step)
    end
  end,
  blank = function()
    return { t = 0, n = 0 }
  end,
  decode = function(text)
    local t, n = match(text, '^(%d+) (%d+)$')
    if not t then
      foreign(text)
    end
    return { t = tonumber(t), n = tonumber(n) }
  end,
  save = function(key, st, l, ttl)
    call('SET', key, l.head .. '|' .. int(st.t) .. ' ' .. int(st.n) .. suffix(st), 'PX', ttl)
  end,
  untouched = function(st)
    return st.n == 0
  end,
  fits = function(_, st, now)
    return not runs(st, now)
  end,
  report = function(l, st, now)
    local level, counted = penalty_at(l, st, now)
    local left = runs(st, now) and 0 or max(1, l.most - counted)
    return left, max(0, penalty_expiry(l, st) - now), nil, level
  end,
  retry = function(_, st, now)
    return st.t - now
  end,
  add = function(l, st, now, tries)
    local at = max(now, st.written or 0)
    if runs(st, at) then -- tries during a step count nothing
      return
    end
    local level, counted = penalty_at(l, st, at)
    if counted == 0 then
      st.t = at
    end
    counted = counted + tries
    if counted >= l.most then
      level, counted = min(level + 1, #l.ladder), 0
      st.t = at + step_length(l, level, at)
    end
    st.n, st.written = counted * LEVELS + level, at
  end,
  sub = function() end,
  -- settle counts tries of some time before, unless the key was reset meanwhile.
  settle = function(l, st, now, tries)
    if penalty_expiry(l, st) > now then
      l.kind.add(l, st, now, min(tries, UNITS))
    end
  end,
  dated = function()
    return 0
  end,
  shift = function(_, st, from, to)
    st.t = max(0, st.t + to - from)
  end,
  expiry = penalty_expiry,
}
