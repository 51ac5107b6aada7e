-- The script that decided groups before states had loans beside a lost epoch, for BenchmarkRedisState. Its numbers
-- have a fourth number before the forms, and a form three, not four.
local call, sub, find, format, doubles = redis.pcall, string.sub, string.find, string.format, struct.unpack
local floor, tonumber, unpack = math.floor, tonumber, unpack
local block = 5000000
local whole = #format('%d', 2 ^ 52) == 16 and '%d' or '%.0f'
local now
local spare
local renew
local written, digits, digits_of, ttl, ttl_of, offset, offset_of = false, nil, nil, nil, nil, nil, nil
local function write(key, value, head, life, t, was)
  if t ~= digits_of then
    digits, digits_of = format(whole, t), t
  end
  if renew == 0 and was > 0 and value ~= true and (life or was % block + t - was < block) then
    local size = #head
    if size ~= offset_of then
      offset, offset_of = format('%d', size), size
    end
    local length = #value
    if length == size + #digits and call('SETRANGE', key, offset, digits) == length then
      written = true
      return true
    end
  end
  if not life then
    local number = spare + floor((t - now + 999) / 1000)
    if number ~= ttl_of then
      ttl, ttl_of = format(whole, number), number
    end
    life = ttl
  end
  local answer
  if value then
    answer = call('SET', key, head .. digits, 'PX', life)
  else
    answer = call('SET', key, head .. digits, 'PX', life, 'NX')
  end
  if not answer then
    return false
  elseif answer.err then
    return true, redis.error_reply((written and 'STINT-PARTLY ' or '') .. answer.err)
  end
  written = true
  return true
end
local function heal(key, life, t)
  if call('PTTL', key) == -1 then
    call('PEXPIRE', key, life or format(whole, spare + floor(((t > now and t - now or 0) + 999) / 1000)))
  end
end
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
    local stale = { now }
    for i = 1, #turns + #groups / 2 do
      stale[i + 1] = -2
    end
    return stale
  end
end
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
local function found(value, head, place)
  if find(value, head, 1, true) == 1 then
    local t = tonumber(sub(value, #head + 1))
    return t and t >= 0 and t <= 2 ^ 53 and t or -1
  end
  local window = windows[place]
  local limit = window and window.limit
  local began = limit and find(value, limit, 1, true) == 1 and match(value, '^(%d+) %d+$', #limit + 1)
  return began and tonumber(began) + window.per <= now and 0 or -1
end
local values = call('MGET', unpack(keys))
local result, states = { now, unpack(keys) }, {}
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
local missing
for i = #turns + 1, #keys do
  if not values[i] then
    missing = missing or {}
    missing[#missing + 1] = keys[i]
  end
end
local hidden = missing and call('EXISTS', unpack(missing)) ~= 0
local before, after, places = {}, { unpack(keys) }, { unpack(keys) }
local count = #turns + 1
local first, pass = 1, true
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
