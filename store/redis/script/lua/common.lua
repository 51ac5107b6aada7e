-- Functions that all algorithms share. A script consists of this file, those of the algorithms
-- that a call needs, and decide.lua, in this order.
--
-- Lua's numbers are doubles, which represent every whole number up to 2^53 exactly. All numbers
-- here stay in that range: times are microseconds since 1970 and end at 2^52 (the year
-- 2112), costs of a call are below 2^48, and a quotient floor(a/b) is exact for
-- a < 2^53: the exact one is at least 1/b below the next whole number k, and doubles
-- below k lie k*2^-53 < 1/b apart, so it never rounds up to k. For a product that may
-- be larger, either only min(product, 2^52) is used, which rounding does not change,
-- or muldiv computes it.

local floor, max, min, huge = math.floor, math.max, math.min, math.huge
local match, format = string.match, string.format
local call = redis.call

local END = 2 ^ 52 - 1 -- the latest time in a state, in microseconds
local UNITS = 2 ^ 47 -- the most units of one debit

-- kinds are the algorithms and their variants, by the letter in states and arguments. The
-- functions of a kind do the same as those of these names in the root package:
--
--   numbers(l, words)        reads the numbers of a limit into l
--   blank(key)               returns the state of an untouched key
--   decode(text)             returns the state in a string, which follows its head
--   load(key)                returns the state of another Redis type, and its head, nil if
--                            there is none
--   save(key, st, l, ttl)    writes the state, to live for ttl milliseconds
--   used, fits, retry, add, sub, expiry, delay, tidy, charge, opens (l, st, now, ...)
--   report(l, st, now)       returns remaining, reset_after, the time of the decision if that
--                            is not now, and the level of a penalty
--   untouched(st)            reports whether the state equals that of an untouched key
--   wait(l, st, now, left)   returns the time until at most left units count
--   dated(l, st)             returns the earliest time of the state's last write, by its content
--   shift(l, st, from, to)   moves a state from one time to another
--   gather(l, st, from, now) turns all units that count at from into one take at now
--   roll(l, st, now)         works off the excess of a state in the windows up to now
--   blend(p, st, now, units) adds units to an untouched state, as if just taken
--
-- A state above full use, whose excess does not follow from its window, ends with an @ and the
-- time of its last write, see above.go in the root package: st.written.
local kinds = {}

-- lending has the functions of lend.lua; it is empty if that is not part of the script.
local lending = {}

-- metering has the functions of usage.lua, if that is part of the script.
local metering = {}

-- granting has the functions of grants.lua, if that is part of the script.
local granting = {}

-- durable has the functions of durable.lua, if that is part of the script.
local durable = {}

-- int writes a whole number, which tostring would round to 14 digits.
local function int(x)
  return format('%.0f', x)
end

-- foreign raises the error about a value that is no state.
local function foreign(text)
  error('STINT-STATE is not a state of Stint: ' .. string.sub(text, 1, 64), 0)
end

-- undecodable reports whether an error is about the value of a key: of another type, no state, one
-- that this code cannot work with, or one that may lack takes which were lost.
local function undecodable(text)
  return match(text, '^STINT%-STATE') or match(text, '^STINT%-LOST') or string.find(text, 'WRONGTYPE', 1, true) or match(text, '^user_script:%d+: ')
end

-- ceildiv returns ceil(a/b) for whole numbers with a + b <= 2^53.
local function ceildiv(a, b)
  return floor((a + b - 1) / b)
end

-- muldiv returns floor(a*b/c) and the remainder, for a < 2^52, b <= c < 2^52. It
-- multiplies bit by bit, from the highest of a:
--
--   q*c + r = (bits of a so far) * b,  0 <= r < c
--
-- 2r and r + b stay below 2^53.
local function muldiv(a, b, c)
  local product = a * b
  if product < 2 ^ 53 then
    local q = floor(product / c)
    return q, product - q * c
  end
  local _, bits = math.frexp(a)
  local q, r, bit = 0, 0, 2 ^ (bits - 1)
  while bit >= 1 do
    q, r = 2 * q, 2 * r
    if r >= c then
      q, r = q + 1, r - c
    end
    if a >= bit then
      a, r = a - bit, r + b
      if r >= c then
        q, r = q + 1, r - c
      end
    end
    bit = bit / 2
  end
  return q, r
end

-- mulup returns ceil(a*b/c), at most 2^52, for a, b < 2^52 and 0 < c < 2^52.
local function mulup(a, b, c)
  local whole = floor(a / c)
  local q, rest = muldiv(b, a - whole * c, c)
  if rest > 0 then
    q = q + 1
  end
  return min(whole * b + q, 2 ^ 52)
end

-- muldown returns floor(a*b/c), at most 2^53, for a, b < 2^52 and 0 < c < 2^52.
local function muldown(a, b, c)
  local whole = floor(a / c)
  return min(whole * b + muldiv(b, a - whole * c, c), 2 ^ 53)
end

-- written_text returns the end of a state with the time of its last write, "" if it has none.
local function written_text(st)
  return st.written and ' @' .. int(st.written) or ''
end

-- read_written returns a state's text without that end, and the time.
local function read_written(text)
  local rest, at = match(text, '^(.*) @(%d+)$')
  if not rest then
    return text
  end
  return rest, tonumber(at)
end

-- suffix returns the end of a state: the time of its last write and its loans.
local function suffix(st)
  return written_text(st) .. (st.loans and lending.text(st.loans) or '')
end

-- spans returns the number of windows in which units count.
local function spans(l, units)
  return ceildiv(units, l.most)
end

-- length returns the length of a window; of a calendar, day to year, the mean of many.
local LENGTHS = { 86400000000, 604800000000, 2629746000000, 31556952000000 }
local function length(l)
  return l.letter == 'c' and LENGTHS[l.per] or l.per
end

-- parse splits a state. Its head has the numbers under which it was written:
--
--   1b 100 60000000 100|        version 1, a letter for the kind, its numbers
--
-- and the text after the bar depends on the kind.
local function parse(text)
  local head, rest = match(text, '^([^|]*)|(.*)$')
  if not head then
    foreign(text)
  end
  if string.sub(head, 1, 1) ~= '1' then
    error('STINT-STATE was written by another release: ' .. string.sub(text, 1, 64), 0)
  end
  return head, rest
end

-- read reads the numbers of the limit with this head into l.
local function read(head, l)
  local letter, words = match(head, '^1(%a)(.*)$')
  local kind = kinds[letter]
  if not kind and letter and match(letter, '[bsqhiwfcdlkmpu]') then -- another script can count it
    error('STINT-NEEDS ' .. head, 0)
  elseif not kind then
    error('STINT-STATE was written by another release: ' .. string.sub(head, 1, 64), 0)
  end
  l.kind, l.letter, l.head = kind, letter, head
  kind.numbers(l, words)
  return l
end

-- The kind of unlimited.
kinds.u = {
  numbers = function(l)
    l.most = huge
  end,
  blank = function()
    return {}
  end,
  fits = function()
    return true
  end,
  report = function()
    return 0, 0
  end,
  used = function()
    return 0
  end,
  add = function() end,
  sub = function() end,
  dated = function()
    return 0
  end,
}

-- SKEW is how many microseconds after now a state may have been written without counting as from
-- the future, see above.go in the root package.
local SKEW = 5000000

-- present changes a state from the future, so that it is free at most a full use from now. A state
-- is from the future if it was written later than now; one without that time, if it cannot have
-- been written earlier. A bucket that has more used than its capacity, and no time of its write,
-- counts as full.
local function present(l, st, now)
  if l.most == 0 then
    return
  end
  local from, slack, shift = st.written, SKEW, l.kind.shift
  if not from then
    from, shift = l.kind.dated(l, st), l.kind.gather or shift
    if not l.kind.full then
      slack = min(SKEW, length(l))
    end
  end
  if from > now + slack then
    shift(l, st, from, now)
    st.moved = true
    if st.written then
      st.written = now
    end
  end
  if l.kind.full and not st.written then
    local over, t = l.kind.full(l, st, now)
    if over then
      st.t, st.moved = t, true
    end
  end
end

-- plain removes the time of the write from a state that has no excess any more.
local function plain(l, st, now)
  if st.written then
    st.written = nil
    present(l, st, now)
  end
end

-- defer_most returns the most units that a state may defer from a time on: those that are worked
-- off before END.
local function defer_most(l, at)
  return min(UNITS, l.most * floor((END - at) / length(l)))
end

-- turn brings a state up to now before it is charged.
local function turn(l, st, now)
  if st.written and l.kind.roll then
    l.kind.roll(l, st, now)
  end
end

-- mark stores the time of the write in a state above full use. A penalty's state always has that time.
local function mark(l, st, now)
  if l.letter == 'p' then
    return
  elseif l.kind.full and l.kind.full(l, st, now) then
    st.written = now
  elseif l.kind.full then
    plain(l, st, now)
  elseif st.written and l.kind.deferred(st) > l.most then
    l.kind.less(l, st)
    st.written = now
  else
    plain(l, st, now)
  end
end
