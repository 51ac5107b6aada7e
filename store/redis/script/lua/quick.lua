-- Decides takes of token_bucket (steady), leaky_bucket and fixed_window (at multiples of
-- per), which is what most are: as decide.lua would, for less. bucket.lua and window.lua
-- say what stands in a state and by which formula it is decided. With now in microseconds
--
--   buckets   used = max(0, t - now)           passes if used + units <= most, and makes
--                                              t = now + used + units
--   windows   n taken since the window began   passes if n + units <= most, and makes n + units
--
-- KEYS are those of all takes, each once, however many ask for it: first those that takes ask
-- by themselves, then those of takes that are decided as one, all or none. ARGV are
--
--   numbers   doubles, little-endian, as parsing digits takes its time
--     now       microseconds since 1970, at most 2^52; 0: the time of this server
--     spare     milliseconds that a key outlives its state, 0 to 2^32
--     known     see below, or 0
--     renew     1: every key that is written gets its end anew; 0: only if its state needs it
--     and of each form, which is a limit and a cost,
--     units     what it takes: microseconds, below 2^51, or units of a window; 0: nothing.
--               More than most where the limit never holds so much
--     most      what may be used afterwards, in the same measure: the capacity, below 2^51, or
--               the longest wait and units if that is less; where units is 0 the capacity, and
--               of windows 2^53, all that a state may say
--     per       windows: how long they are, in microseconds; buckets: 0
--   plan      a byte for each of KEYS: the place of a form that it is read by, from 0 on
--   turns     a byte for each of the first KEYS: how many takes ask for it, one after the
--             other, each by itself and in that form, 1 to 128
--   groups    two bytes for each of the other takes: the place of its key among KEYS, from 0
--             on, plus 128 if the next take is decided with it; and the place of its form
--
-- and then of each form
--
--   limit     its numbers as states begin with them: "1b 100 60000000 100|"
--
-- Takes of keys that may be lent, of nodes that hold nothing of them, are decided here too as
-- long as no loan was ever forgotten. Then KEYS are one more than the plan has, the key of the
-- epoch (see lend.lua), and known is the epoch that those who ask remember. Where that is not
-- in force, or another one was lost before it, no key is read, and each is answered -2.
--
-- It returns the time; of each key of turns the t or n that its first take found; and the same
-- of each take of groups. From that the caller works out the decisions by the same formula. -1
-- is: the state was written under other numbers, in a window to come, has loans, or is none of
-- ours. Takes of such a key, and those decided with them, are left alone, for decide.lua.
--
-- A key is read once and written once, or twice where takes ask for it both ways; write.lua
-- says what an error of that means.

local match, byte = string.match, string.byte
local keys, limits, numbers, plan, turns, groups = KEYS, ARGV, ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local known
now, spare, known, renew = doubles('<dddd', numbers)

if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

if #keys > #plan then
  local epoch = call('GET', table.remove(keys))
  local server = call('INFO', 'server')
  if type(server) ~= 'string' or epoch ~= format(whole, known) .. ' 0 ' .. match(server, 'run_id:(%w+)') then
    local unread = { now }
    for i = 1, #turns + #groups / 2 do
      unread[i + 1] = -2
    end
    return unread
  end
end

-- form_of returns the numbers of a form, from when on it counts (buckets from now on, windows
-- from 0), what states of it begin with, and of windows how long a key lives, in milliseconds.
local windows = {}
local function form_of(place)
  local units, most, per = doubles('<ddd', numbers, place * 24 + 33)
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

-- found returns the t or n of a state.
local function found(value, head, place)
  if find(value, head, 1, true) == 1 then
    local t = tonumber(sub(value, #head + 1))
    return t and t >= 0 and t <= 2 ^ 53 and t or -1 -- nan and inf are numbers too
  end
  local window = windows[place]
  local limit = window and window.limit
  local began = limit and find(value, limit, 1, true) == 1 and match(value, '^(%d+) %d+$', #limit + 1)
  return began and tonumber(began) + window.per <= now and 0 or -1
end

local values = call('MGET', unpack(keys))
local result, states = { now, unpack(keys) }, {} -- no longer than it will be
local grouped = #groups > 0
local place, units, most, base, head, life

local plans, counts = { byte(plan, 1, #turns) }, { byte(turns, 1, -1) }
for i = 1, #turns do
  if plans[i] ~= place then
    place = plans[i]
    units, most, base, head, life = form_of(place)
  end
  local key, value = keys[i], values[i]
  local t = value and found(value, head, place) or 0
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
      there, problem = write(key, value, head, life, t, result[i + 1])
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
    states[i] = t
    values[i] = values[i] or t > 0
  end
end
if not grouped then
  return result
end

-- MGET takes what is no string for nothing.
local missing
for i = #turns + 1, #keys do
  if not values[i] then
    missing = missing or {}
    missing[#missing + 1] = keys[i]
  end
end
local hidden = missing and call('EXISTS', unpack(missing)) ~= 0

local before, after, places = {}, { unpack(keys) }, { unpack(keys) } -- as long as they will be
local count = #turns + 1
local first, pass = 1, true -- of the group
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
        t = found(values[i], head, place)
      elseif hidden and call('EXISTS', keys[i]) ~= 0 then
        t = -1
      end
      states[i] = t
    end
    before[i], places[i] = t, place
  end
  count = count + 1
  result[count] = t
  local used = t > base and t - base or 0
  if t < 0 or used + units > most then
    pass = false
  end
  after[i] = units > 0 and base + used + units or t
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
      local _, problem = write(keys[i], values[i], window and window.head or limits[places[i] + 5], life, t, was)
      if problem then
        return problem
      end
    else
      heal(keys[i], life, t)
    end
  end
end
return result
