-- Decides takes of token_bucket (steady), leaky_bucket and fixed_window (at multiples of
-- per), which most takes are: as decide.lua would, in less time. bucket.lua and window.lua
-- describe the states and the formulas. With now in microseconds
--
--   buckets   used = max(0, t - now)           passes if used + units <= most, and makes
--                                              t = now + used + units
--   windows   n taken since the window began   passes if n + units <= most, and makes n + units
--
-- KEYS are the keys of all takes, each once, however many takes use it: first those of takes
-- that are decided by themselves, then those of takes that are decided as one, all or none. ARGV
-- are
--
--   numbers   doubles, little-endian, as parsing digits would cost time
--     now       microseconds since 1970, at most 2^52; 0: the time of this server
--     spare     milliseconds that a key lives longer than its state, 0 to 2^32
--     renew     1: set the TTL of every key that is written; 0: only if its state needs it
--     and for each form, which is a limit and a cost,
--     units     what a take charges: microseconds, below 2^51, or units of a window; 0: a peek.
--               More than most if the limit never has that much
--     most      the most that may be used afterwards, in the same unit: the capacity, below
--               2^51, or the longest wait plus units if that is less; if units is 0 the
--               capacity, and for windows 2^53, the largest number of a state
--     per       windows: their length, in microseconds; buckets: 0
--     charge    what one unit charges, in the unit of most
--   plan      a byte for each of KEYS: the index, from 0, of a form by which it is read
--   turns     a byte for each of the first KEYS: how many takes of that form use it, one after
--             the other, each by itself, 1 to 128
--   groups    two bytes for each of the other takes: the index of its key in KEYS, from 0,
--             plus 128 if the next take is decided with it; and the index of its form
--
-- and then for each form
--
--   limit     its numbers as states begin with them: "1b 100 60000000 100|"
--
-- The script also decides takes of keys that may be lent, of nodes without a lease of them. If it has
-- a process, see plain.lua, KEYS has one more than plan, the key of the process. If another epoch is
-- in force, the script answers -2 for each.
--
-- It returns the time; for each key of turns the t or n that its first take found; and the same
-- for each take of groups. The caller computes the decisions from that by the same formula. -1
-- means that the state was written under other numbers or in a later window, or is no state, or
-- that its loans may change the answer: some are to be written off, or a bucket would deny. The
-- script does not decide takes of such a key, and those decided with them: decide.lua does. For
-- other buckets with loans it returns the later t to which lent units amount.
--
-- The script reads and writes a key once, or twice if takes use it both ways; write.lua
-- describes the errors.

local match, byte = string.match, string.byte
local keys, limits, numbers, plan, turns, groups = KEYS, ARGV, ARGV[1], ARGV[2], ARGV[3], ARGV[4]
now, spare, renew = doubles('<ddd', numbers)

@loans

local values = call('MGET', unpack(keys))
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
if process and table.remove(keys) and (tostring(redis) ~= process or values[#keys + 1] ~= mark) then
  local stale = { now }
  for i = 1, #turns + #groups / 2 do
    stale[i + 1] = -2
  end
  return stale
end

-- form_of returns the numbers of a form: units, most, the start (now for buckets, 0 for windows),
-- the head of its states, and for windows the life of a key in milliseconds.
local windows = {}
local function form_of(place)
  local units, most, per = doubles('<ddd', numbers, place * 32 + 25)
  local limit = limits[place + 5]
  if per == 0 then
    return units, most, now, limit, nil
  end
  local window = windows[place]
  if not window then
    local start = floor(now / per) * per
    local life = spare + floor((start + per - now + 999) / 1000)
    window = { limit = limit, per = per, head = limit .. format(whole, start) .. ' ', life = format(whole, life) }
    windows[place] = window
  end
  return units, most, 0, window.head, window.life
end

-- found_lent returns the t or n of a state with loans, and these: their text, the t before them, the
-- time at which the first is written off, and how much of a bucket does not refill until then.
local function found_lent(value, head, place)
  local digits, loans = match(value, '^(%d+)(~.*)$', #head + 1)
  local lent, stay = nil, nil
  if digits then
    lent, stay, loans = lent_units(loans, now, epoch, lost)
  end
  local t = lent and tonumber(digits)
  if not t or t > 2 ^ 53 then
    return -1
  elseif loans == '' then
    return t
  elseif windows[place] then
    return t, { text = loans, was = t, stay = math.huge, used = -math.huge }
  end
  local used = lent * doubles('<d', numbers, place * 32 + 49)
  return used > 0 and t < now + used and now + used or t, { text = loans, was = t, stay = stay, used = used }
end

-- changed_by reports whether loans change the retry time of a denied take that would fit at a time
-- without them.
local function changed_by(loans, units, most, at)
  return loans and (loans.used + units > most or at >= loans.stay)
end

-- found returns the t or n of a state, and its loans if it has any.
local function found(value, head, place)
  if find(value, head, 1, true) == 1 then
    local t = tonumber(sub(value, #head + 1))
    if not t then
      return found_lent(value, head, place)
    end
    return t >= 0 and t <= 2 ^ 53 and t or -1 -- refuses nan and inf, which are numbers too
  end
  local window = windows[place]
  local limit = window and window.limit
  local began = limit and find(value, limit, 1, true) == 1 and match(value, '^(%d+) %d+$', #limit + 1)
  return began and tonumber(began) + window.per <= now and 0 or -1
end

local result, states = { now, unpack(keys) }, {} -- result has its largest length
local grouped = #groups > 0
local lent = {} -- for each key in groups: its loans if it has any
local place, units, most, base, head, life

local plans, counts = { byte(plan, 1, #turns) }, { byte(turns, 1, -1) }
for i = 1, #turns do
  if plans[i] ~= place then
    place = plans[i]
    units, most, base, head, life = form_of(place)
  end
  local key, value = keys[i], values[i]
  local t, loans = 0, nil
  if value then
    t, loans = found(value, head, place)
  end
  if (t > base and t or base) + counts[i] * units > base + most and changed_by(loans, units, most, base + units) then
    t = -1
  end
  result[i + 1] = t
  if t >= 0 then
    local used = t > base and t - base or 0
    local sum = used
    for _ = 1, counts[i] do
      if sum + units > most then
        break
      end
      sum = sum + units
    end
    local there, problem
    if sum > used then
      t = base + sum
      there, problem = write(key, value, head, life, t, loans and loans.was or result[i + 1], loans and loans.text)
      if problem then
        return problem
      end
    elseif value then
      there = true
      heal(key, life, t)
    else
      there = call('EXISTS', key) == 0
    end
    if not there then
      t = -1
      result[i + 1] = t
    end
  end
  if grouped then
    if loans and t ~= result[i + 1] then
      loans.was = t
    end
    lent[i], states[i] = loans, t
    values[i] = values[i] or t > 0
  end
end
if not grouped then
  return result
end

-- MGET returns nothing for values of other types.
local missing
for i = #turns + 1, #keys do
  if not values[i] then
    missing = missing or {}
    missing[#missing + 1] = keys[i]
  end
end
local hidden = missing and call('EXISTS', unpack(missing)) ~= 0

local before, after, places = {}, { unpack(keys) }, { unpack(keys) } -- with their final length
local count = #turns + 1
local first, pass = 1, true -- first take of the group, and whether the group passes
for at = 1, #groups, 2 do
  local i, number = byte(groups, at, at + 1)
  local last = i < 128
  i = last and i + 1 or i - 127
  if number ~= place then
    place = number
    units, most, base, head, life = form_of(place)
  end
  local t = states[i]
  if not before[i] then
    if not t then
      t = 0
      if values[i] then
        t, lent[i] = found(values[i], head, place)
      elseif hidden and call('EXISTS', keys[i]) ~= 0 then
        t = -1
      end
      states[i] = t
    end
    before[i], places[i] = t, place
  end
  count = count + 1
@steady
  if not fits and changed_by(lent[i], units, most, t + units - most) then
    t = -1
  end
  result[count] = t
  if t < 0 or not fits then
    pass = false
  end
  after[i] = units > 0 and later or t
  if last then
    if pass then
      for back = first, at, 2 do
        i = byte(groups, back)
        i = i < 128 and i + 1 or i - 127
        states[i] = after[i]
      end
    end
    first, pass = at + 2, true
  end
end

for i = 1, #keys do
  local t, was = states[i], before[i]
  if was and t >= 0 and (t > was or values[i] and i > #turns) then
    local window = windows[places[i]]
    life = window and window.life
    if t > was then
      local one = lent[i]
      local _, problem = write(keys[i], values[i], window and window.head or limits[places[i] + 5], life, t,
        one and one.was or was, one and one.text)
      if problem then
        return problem
      end
    else
      heal(keys[i], life, t)
    end
  end
end
return result
