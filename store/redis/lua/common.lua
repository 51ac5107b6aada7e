-- What all algorithms share. The script that is sent is this file, those of the
-- algorithms that a call needs, and decide.lua, in this order.
--
-- Lua's numbers are doubles, which hold every whole number up to 2^53 exactly. So
-- does everything here: times are microseconds since 1970 and end at 2^52 (the year
-- 2112), costs of a call are below 2^48, and a quotient floor(a/b) is exact for
-- a < 2^53: the exact one is at least 1/b below the next whole number k, and doubles
-- below k lie k*2^-53 < 1/b apart, so it never rounds up to k. Where a product may
-- be larger, either only min(product, 2^52) is used, which rounding leaves as it is,
-- or muldiv computes it.

local floor, max, min, huge = math.floor, math.max, math.min, math.huge
local match, format = string.match, string.format
local call = redis.call

local END = 2 ^ 52 - 1 -- the latest microsecond that stands in a state
local UNITS = 2 ^ 47 -- no more units than these are debited at once

-- kinds are the ways to count, by the letter that states and arguments begin with.
-- The functions of a kind mean what those of the root package mean by these names:
--
--   numbers(l, words)        puts the numbers of a limit into l
--   blank(key)               returns the state of an untouched key
--   decode(text)             returns a state that stands in a string, behind its head
--   load(key)                returns one that does not, and its head, nil where there
--                            is none
--   save(key, st, l, ttl)    writes it, to live for ttl milliseconds
--   used, fits, retry, add, sub, expiry, delay, tidy, charge, opens (l, st, now, ...)
--   report(l, st, now)       returns remaining, reset_after, and the time it was decided for
--                            where that is not now
--   untouched(st)            says whether nothing has to be remembered
--   seen(p, now, units)      returns a state of so many units, just taken, and writes nothing,
--                            where add writes at once
local kinds = {}

-- lending are the functions of lend.lua, none where that is not part of the script.
local lending = {}

-- int writes a whole number, which tostring would round to 14 digits.
local function int(x)
  return format('%.0f', x)
end

-- foreign says that what stands in a key is none of ours.
local function foreign(text)
  error('STINT-STATE is not a state of Stint: ' .. string.sub(text, 1, 64), 0)
end

-- unreadable says whether an error is about what stands in a key: a value of another type,
-- no state of ours, or one that these lines cannot work with.
local function unreadable(text)
  return match(text, '^STINT%-STATE') or string.find(text, 'WRONGTYPE', 1, true) or match(text, '^user_script:%d+: ')
end

-- ceil(a/b) for whole numbers with a + b <= 2^53.
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

-- suffix returns what a state that is lent ends with.
local function suffix(st)
  return st.loans and lending.text(st.loans) or ''
end

-- The head of every state says under which numbers it was written:
--
--   1b 100 60000000 100|        version 1, a letter for the kind, its numbers
--
-- and what stands behind the bar is the kind's.
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

-- read puts the numbers of the limit that head names into l.
local function read(head, l)
  local letter, words = match(head, '^1(%a)(.*)$')
  local kind = kinds[letter]
  if not kind and letter and match(letter, '[bsqhiwfcdlkmu]') then -- but counted in another way
    error('STINT-NEEDS ' .. head, 0)
  elseif not kind then
    error('STINT-STATE was written by another release: ' .. string.sub(head, 1, 64), 0)
  end
  l.kind, l.letter, l.head = kind, letter, head
  kind.numbers(l, words)
  return l
end

-- The kind of what has no limit.
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
}
