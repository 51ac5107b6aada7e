-- Decides takes of token_bucket (steady), leaky_bucket and fixed_window (at multiples of
-- per), which is what most are: as decide.lua would, for less. bucket.lua and window.lua
-- say what stands in a state and by which formula it is decided. With now in microseconds
--
--   buckets   used = max(0, t - now)           passes if used + units <= full and
--                                              used <= wait, and makes t = now + used + units
--   windows   n taken since the window began   passes if n + units <= full, and makes n + units
--
-- KEYS are those of all takes; those that are decided as one, all or none, stand side by
-- side. ARGV are
--
--   now       microseconds since 1970, at most 2^52; 0: the time of this server
--   spare     milliseconds that a key outlives its state, 0 to 2^32
--   plan      a byte for each of KEYS: the place of its form, 0 to 127, plus 128 if the
--             next key is decided with it
--
-- and then of each form, which is a limit and a cost,
--
--   head      numbers of the limit as states begin with them: "1b 100 60000000 100|"
--   units     what it takes: microseconds, below 2^51, or units of a window; 0: nothing.
--             More than full where the limit never holds so much
--   full      capacity in the same measure, below 2^51
--   wait      buckets: the longest wait, microseconds, 2^52 for none;
--             windows: per in microseconds
--
-- Takes of keys that may be lent, of nodes that hold nothing of them, are decided here too as
-- long as no loan was ever forgotten. Then KEYS are one more than the plan has, the key of the
-- epoch (see lend.lua), and ARGV end with
--
--   known     the epoch that those who ask remember, above 0
--
-- Where that is not in force, or another one was lost before it, no key is read, and each is
-- answered -2.
--
-- It returns the time, and of each key the t or n that was found, from which the caller
-- works out the decision by the same formula, or -1: the state was written under other
-- numbers, in a window to come, has loans, or is none of ours. A group with such a key is left alone,
-- for decide.lua.
--
-- A key is read once and written once, however many of its takes come together. All are
-- written in the end, so that an error of the first one, for memory or rights, says that
-- nothing was charged; "STINT-PARTLY" stands before that of a later one.

local call, sub, match, format, byte = redis.pcall, string.sub, string.match, string.format, string.byte
local floor, max, tonumber = math.floor, math.max, tonumber
local keys, now, spare, plan = KEYS, ARGV[1] + 0, ARGV[2] + 0, ARGV[3]
local whole = #format('%d', 2 ^ 52) == 16 and '%d' or '%.0f' -- %d is faster, but for 32 bits it is too small

if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

if #keys > #plan then
  local epoch = call('GET', table.remove(keys))
  local server = call('INFO', 'server')
  if type(server) ~= 'string' or epoch ~= ARGV[#ARGV] .. ' 0 ' .. match(server, 'run_id:(%w+)') then
    local unread = { now }
    for i = 1, #keys do
      unread[i + 1] = -2
    end
    return unread
  end
end

-- MGET takes what is no string for nothing, which EXISTS does not.
local values, missing = call('MGET', unpack(keys)), nil
for i = 1, #keys do
  if not values[i] then
    missing = missing or {}
    missing[#missing + 1] = keys[i]
  end
end
if missing and call('EXISTS', unpack(missing)) ~= 0 then
  for i = 1, #keys do
    values[i] = call('GET', keys[i]) -- or a table with the error
  end
end

-- Of the first take of each key: the head that its state begins with, for windows with the
-- start, the state as it is now, and how long it lives, in milliseconds; true for a bucket.
local place, heads, states, lives = {}, {}, {}, {}
local result, after = { now }, {}
local form, limit, head, units, full, wait, start, life
local first, known, pass = 1, true, true -- of the group

-- earlier says whether a state of the limit is one of a window that is over.
local function earlier(value)
  local size = #limit
  local began = life ~= true and sub(value, 1, size) == limit and match(value, '^(%d+) %d+$', size + 1)
  return began and tonumber(began) < start
end

for i = 1, #keys do
  local number = byte(plan, i)
  local last = number < 128
  if not last then
    number = number - 128
  end
  if number ~= form then
    form = number
    local at = number * 4 + 4
    limit, units, full, wait = ARGV[at], ARGV[at + 1] + 0, ARGV[at + 2] + 0, ARGV[at + 3] + 0
    head, life = limit, true
    if byte(limit, 2) == 119 then -- w
      start = floor(now / wait) * wait
      head = limit .. format(whole, start) .. ' '
      life = format(whole, spare + floor((start + wait - now + 999) / 1000))
    end
  end

  local key = keys[i]
  local t, n = 0, place[key]
  if n then
    t = heads[n] == head and states[n] or -1
    heads[i], states[i], lives[i] = false, false, false
  else
    local value = values[i]
    if value then
      local size = #head
      if #value > size and sub(value, 1, size) == head then
        t = tonumber(sub(value, size + 1)) or -1
      elseif #value == 0 or not earlier(value) then
        t = -1
      end
    end
    n = i
    place[key], heads[i], states[i], lives[i] = i, head, t, life
  end

  result[i + 1] = t
  if t < 0 then
    known = false
  elseif units == 0 then -- it only looks
  elseif life == true then
    local used = t > now and t - now or 0
    pass = pass and used + units <= full and used <= wait
    t = now + used + units
  else
    t = t + units
    pass = pass and t <= full
  end

  if not last or i > first then
    after[i] = t
  elseif known and pass then
    states[n] = t
  end
  if last then
    if i > first and known and pass then
      for j = first, i do
        states[place[keys[j]]] = after[j]
      end
    end
    first, known, pass = i + 1, true, true
  end
end

-- The first take of each key was told what was found, and each charge makes that more.
-- Keys that were idle get the same digits and time to live.
local written, digits, digits_of, ttl, ttl_of = false, nil, nil, nil, nil
for i = 1, #keys do
  local t, lives_for = states[i], lives[i]
  if t and t >= 0 then
    if lives_for == true then
      local number = spare + floor((max(0, t - now) + 999) / 1000)
      if number ~= ttl_of then
        ttl, ttl_of = format(whole, number), number
      end
      lives_for = ttl
    end
    if t ~= result[i + 1] then
      if t ~= digits_of then
        digits, digits_of = format(whole, t), t
      end
      local answer = call('SET', keys[i], heads[i] .. digits, 'PX', lives_for)
      if answer.err then
        return redis.error_reply((written and 'STINT-PARTLY ' or '') .. answer.err)
      end
      written = true
    elseif values[i] and call('PTTL', keys[i]) == -1 then
      call('PEXPIRE', keys[i], lives_for)
    end
  end
end
return result
