-- Grants and the rollover of a key, as package limits describes them: Funds, Book and Carry. They are
-- for takes of windows with a history, and written in the step that charges these.
--
-- The book of a key is a string: the carry as start, end, units, used, own and of, all 0 if there is
-- none, and for each grant the units that are used, its end, the length of its ID, and its ID:
--
--   1g 1767222000000000 1767225600000000 100 20 7 1000 12 1767229200000000 5:a-b-c
--
-- With 2g the numbers of the carry before follow those of the carry.
-- It is kept for a year after the end of its grants and the last charge, and as long as its carry leaves
-- something. Units are at most 2^46 and there are at most 33 sources, so all sums
-- are exact.

local MAX_IDLE = 12 -- periods that a carry outlives
granting.PERIODS = MAX_IDLE + 1 -- after that of a carry, in which it may leave something
local KEPT_USE = 31622400000000 -- the microseconds that the use of grants outlives them and the last charge
local MAX_ENDED = 32 -- ended grants whose use is kept
local MOST_USED_CARRY = 2 ^ 47 -- of a carry, twice the most units
local NO_CARRY = { start = 0, stop = 0, units = 0, used = 0, own = 0, of = 0 } -- nothing writes to it

-- granting.read reads the arguments of a take with grants.
function granting.read(p, number, text, key)
  local g = { key = key, most = number(), list = {}, charged = 0, given = 0 }
  for i = 1, number() do
    g.list[i] = { id = text(), units = number(), before = number() == 1, from = number(), stop = number() }
  end
  local back = number()
  if back >= 0 then
    g.back = {}
  end
  for i = 1, back do
    g.back[i] = { kind = number(), units = number(), name = text() }
  end
  g.starts = {}
  for i = 1, number() do
    g.starts[i] = number()
  end
  p.grants = g
end

-- count_periods returns how many windows of a limit begin at or after stop, up to the one that begins at
-- start.
local function count_periods(p, stop, start)
  if p.letter ~= 'c' then
    return start / p.per - ceildiv(stop, p.per) + 1
  end
  local count = 0
  for _, at in ipairs(p.grants.starts) do
    if stop <= at and at <= start then
      count = count + 1
    end
  end
  return count
end

-- after returns how many units the kth period after that of a carry has.
local function after(c, k, most)
  if k > MAX_IDLE then
    return 0
  end
  return min(most, max(0, c.units - c.used + k * c.of - c.own))
end

-- at returns a carry, nil for none, as it is at now.
local function at(p, c, now)
  local start, stop = 0, 0
  if not c or now >= c.stop then
    start, stop = window(p, now)
  end
  if c and (now < c.stop or start < c.stop) then
    return { start = c.start, stop = c.stop, units = c.units, used = c.used, own = c.own, of = c.of }
  end
  return { start = start, stop = stop, units = c and after(c, count_periods(p, c.stop, start), p.grants.most) or 0, used = 0, own = 0, of = 0 }
end

-- counts returns the time from which a carry, nil for none, does not count as from a clock that ran ahead.
local function counts(c)
  return c and c.start - min(SKEW, c.stop - c.start) or 0
end

-- add_ahead adds what was charged in the period of a carry from a clock that ran ahead.
local function add_ahead(c, from)
  c.used = c.used + from.used
  if from.own > 0 then
    c.used, c.own = c.used + c.own, from.own
  end
  c.used, c.of = min(c.used, MOST_USED_CARRY), from.of
end

-- turn_carry sets the carry as it is at now, the one that was charged last by now, and the one that stands before the
-- carry when that is charged.
local function turn_carry(p, now)
  local g = p.grants
  if g.most == 0 then
    g.last, g.before, g.carry = nil, nil, NO_CARRY
    return
  end
  g.last, g.before = g.old, g.prior
  if now < counts(g.old) then
    local early = now < counts(g.prior)
    g.last, g.before = at(p, not early and g.prior or nil, now), nil
    if early then
      add_ahead(g.last, g.prior)
    end
    add_ahead(g.last, g.old)
  end
  g.carry = at(p, g.last, now)
  if g.last and g.carry.stop ~= g.last.stop then
    g.before = g.last
  end
end

-- read_carry reads a carry of a book, and where it ends; nil if there is none.
local function read_carry(text, from)
  local start, stop, units, used, own, of, at = match(text, '^ (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)()', from or #text + 1)
  if start then
    return { start = tonumber(start), stop = tonumber(stop), units = tonumber(units), used = tonumber(used), own = tonumber(own), of = tonumber(of) }, at
  end
end

-- granting.load reads the book. The history of the key is loaded: if it has a later period than that of
-- the carry, a take without grants was charged there.
function granting.load(p, now)
  local g = p.grants
  local text = call('GET', g.key)
  g.used, g.ids = {}, {}
  if text then
    local version, from = match(text, '^([12])g()')
    local old, prior, at
    old, at = read_carry(text, from)
    if version == '2' then
      prior, at = read_carry(text, at)
    end
    if not at then
      foreign(text)
    end
    if old.stop > 0 and not (p.meter.start and p.meter.start >= old.stop) then
      g.old, g.prior = old, prior
    end
    while at <= #text do
      local count, ends, length, from = match(text, '^ (%d+) (%d+) (%d+):()', at)
      if not count then
        foreign(text)
      end
      at = from + tonumber(length)
      local id = string.sub(text, from, at - 1)
      g.ids[#g.ids + 1] = id
      g.used[id] = { used = tonumber(count), stop = tonumber(ends) }
    end
  end
  turn_carry(p, now)
end

-- carry_left returns how many units of the carry are left.
local function carry_left(g)
  return max(0, g.carry.units - g.carry.used)
end

-- left returns how many units of a grant are left at a time.
local function left(g, one, at)
  if at < one.from or one.stop <= at then
    return 0
  end
  local known = g.used[one.id]
  return max(0, one.units - (known and known.used or 0))
end

-- own_left returns how many units of the limit itself are left.
local function own_left(p, now)
  return p.most > 0 and max(0, (p.kind.report(p, p.st, now))) or 0
end

-- split divides the cost of a take. What no source has left falls to the limit itself.
local function split(p, now, cost)
  local g, rest = p.grants, cost
  local s = { carry = min(rest, carry_left(g)), own = 0 }
  rest = rest - s.carry
  for i, one in ipairs(g.list) do
    s[i] = one.before and min(rest, left(g, one, now)) or 0
    rest = rest - s[i]
  end
  s.own = min(rest, own_left(p, now))
  rest = rest - s.own
  for i, one in ipairs(g.list) do
    if not one.before then
      s[i] = min(rest, left(g, one, now))
      rest = rest - s[i]
    end
  end
  s.own = s.own + rest
  return s
end

-- more returns how many units grants and the carry have left.
local function more(p, now)
  local g = p.grants
  local sum = carry_left(g)
  for _, one in ipairs(g.list) do
    sum = sum + left(g, one, now)
  end
  return sum
end

-- carries returns what the carry has now, and will have in the periods that follow, if nobody takes. The carry of a
-- clock that ran ahead begins to count when the time is near its period, and until then that before it counts.
local function carries(p, now)
  local g, all = p.grants, {}
  if g.most == 0 or not g.old then
    return all
  end
  local calendar, last = p.letter == 'c', granting.PERIODS
  if calendar then -- the windows up to the one so many after that of now
    for i, start in ipairs(g.starts) do
      last = start <= now and min(i + granting.PERIODS + 1, #g.starts) or last
    end
  end
  -- follow appends what a carry, nil for none, leaves to the periods from a time on until another, less what a clock
  -- ahead has used. Of a calendar it counts on no window after the last.
  local function follow(c, early, from, stop)
    local function append(at, units, used, own)
      used = used + early.used + (early.own > 0 and own or 0)
      all[#all + 1] = { from = at, units = max(0, units - min(used, MOST_USED_CARRY)) }
    end
    c = c or NO_CARRY
    append(from, c.units, c.used, c.own)
    local known = not calendar or g.starts[1] <= c.stop
    if not known then
      all[#all].units = 0
    end
    local k, first = 0, ceildiv(c.stop, calendar and 1 or p.per)
    for i = 1, (c.stop == 0 or not known) and 0 or last do
      local start = calendar and g.starts[i] or (first + i - 1) * p.per
      if start >= c.stop then
        k = k + 1
        if start >= stop or k > granting.PERIODS then
          return
        elseif start <= from then -- the period began before
          all[#all] = nil
        end
        append(max(start, from), after(c, k, g.most), 0, 0)
      end
    end
    if calendar and known and k < granting.PERIODS and max(g.starts[last], c.stop) < stop then
      append(max(g.starts[last], c.stop), 0, 0, 0)
    end
  end
  local from, stop = now, counts(g.old)
  if stop > now then
    if max(now, counts(g.prior)) < stop then
      follow(g.prior, g.old, max(now, counts(g.prior)), stop)
    end
    from = stop
  end
  follow(g.old, NO_CARRY, from, huge)
  return all
end

-- own_wait returns how long until units fit the limit itself.
local function own_wait(p, now, units)
  if granting.fits(p, now, units) then
    return 0
  end
  granting.answer(p, now, units, false)
  return p.retry
end

-- wait returns how long until a cost fits that does not fit now. What the carry and the grants have
-- changes only at certain times. Between two of these the limit itself needs to have the rest.
local function wait(p, now, cost)
  local g, coming, times = p.grants, carries(p, now), { now }
  for _, c in ipairs(coming) do
    if c.from > now then
      times[#times + 1] = c.from
    end
  end
  for _, one in ipairs(g.list) do
    if one.from > now then
      times[#times + 1] = one.from
    end
    if one.stop > now then
      times[#times + 1] = one.stop
    end
  end
  table.sort(times)
  local carry, following = 0, 1
  for i, from in ipairs(times) do
    while coming[following] and coming[following].from <= from do
      carry, following = coming[following].units, following + 1
    end
    local there = carry
    for _, one in ipairs(g.list) do
      there = there + left(g, one, from)
    end
    local own = own_wait(p, now, max(0, cost - there))
    local at = max(from, now + own)
    if own < huge and (i == #times or at < times[i + 1]) then
      return at - now
    end
  end
  return huge
end

-- granting.corrects reports whether a denied take writes a state that was moved back in time: one that will pass does,
-- also if the limit itself does not fit the cost.
function granting.corrects(p)
  return not p.allowed and p.retry < huge and (p.old or p).st.moved
end

-- finish turns the answer about the limit itself into that about a take of a cost.
local function finish(p, now, cost)
  local g = p.grants
  g.more = more(p, now)
  if not p.allowed then
    local remaining, reset, at, writes = p.remaining, p.reset, p.at, p.writes
    local retry = wait(p, now, cost)
    p.allowed, p.retry, p.remaining, p.reset, p.at, p.writes = false, retry, remaining, reset, at, writes
  end
end

-- granting.test reports whether a cost fits.
function granting.test(p, now, cost)
  return granting.fits(p, now, split(p, now, cost).own)
end

-- granting.tested sets the answer of a take that was tested.
function granting.tested(p, now, allowed)
  granting.answer(p, now, split(p, now, p.cost).own, allowed)
  finish(p, now, p.cost)
end

-- granting.remaining returns how many units could be taken.
function granting.remaining(p, now)
  return own_left(p, now) + more(p, now)
end

-- extend takes over later ends of grants, also of those that are used up and so are charged no more.
local function extend(g)
  for _, one in ipairs(g.list) do
    local known = g.used[one.id]
    if known then
      known.stop = max(known.stop, one.stop)
    end
  end
end

-- tidy drops those that ended first of more than MAX_ENDED grants that have ended.
local function tidy(g, now)
  local ended = 0
  for _, id in ipairs(g.ids) do
    ended = ended + (g.used[id].stop <= now and 1 or 0)
  end
  for _ = MAX_ENDED + 1, ended do
    local first = 1
    for i, id in ipairs(g.ids) do
      if g.used[id].stop < g.used[g.ids[first]].stop then
        first = i
      end
    end
    g.used[table.remove(g.ids, first)] = nil
  end
end

-- charge writes a take into the book.
local function charge(p, now, s, cost)
  local g, ids = p.grants, p.grants.ids
  extend(g)
  tidy(g, now)
  for i, one in ipairs(g.list) do
    if s[i] > 0 then
      if not g.used[one.id] then
        ids[#ids + 1] = one.id
      end
      local known = g.used[one.id]
      g.used[one.id] = { used = (known and known.used or 0) + s[i], stop = one.stop }
    end
  end
  g.charged, g.spent, g.changed = cost, s, true
  if g.most > 0 then
    g.carry.used = g.carry.used + s.carry
    g.carry.own, g.carry.of = p.kind.used(p, p.st, now), p.most
    g.old, g.prior = g.carry, g.before
  end
  if g.old and window_of(p, p.st, now) >= g.old.stop then
    g.old, g.prior = nil, nil
  end
end

-- recount writes the carry after something was given back or reset, if its period still runs.
local function recount(p, now)
  local g = p.grants
  if g.old and now < g.old.stop then
    if now >= counts(g.old) then
      g.old.own = p.kind.used(p, p.st, now)
    end
    g.changed = true
    turn_carry(p, now)
  end
end

-- newest returns what a refund of no certain take gives back: what is used now, the source that is used
-- last first.
local function newest(p, now, cost)
  local g, back = p.grants, {}
  local function grants(before)
    for i = #g.list, 1, -1 do
      local one = g.list[i]
      local known = one.before == before and one.from <= now and now < one.stop and g.used[one.id]
      if known then
        local units = min(cost, known.used)
        cost = cost - units
        back[#back + 1] = { kind = 2, units = units, name = one.id }
      end
    end
  end
  grants(false)
  local at = p.old or p
  local own = min(cost, at.kind.used(at, at.st, now))
  cost = cost - own
  back[#back + 1] = { kind = 0, units = own }
  grants(true)
  back[#back + 1] = { kind = 1, units = min(cost, g.carry.used), name = int(g.carry.stop) }
  return back
end

-- give_own gives units back to the limit itself. It returns how many came back.
local function give_own(p, now, units)
  local at = p.old or p
  local before = at.kind.used(at, at.st, now)
  p.cost = units
  granting.act(p, now)
  at = p.old or p
  return at.kind.used(at, at.st, now) < before and units or 0
end

-- give_carry gives units back to the carry of a period that ends at stop.
local function give_carry(p, now, units, stop)
  local c = p.grants.old
  if not c or c.stop ~= stop or now >= stop then
    return 0
  end
  units = min(units, c.used)
  c.used = c.used - units
  return units
end

-- give_grant gives units back to a grant that has not ended.
local function give_grant(p, now, units, id)
  local g = p.grants
  local known = g.used[id]
  if not known or known.stop <= now then
    return 0
  end
  units = min(units, known.used)
  known.used = known.used - units
  return units
end

-- give_back does a refund.
local function give_back(p, now)
  local g, cost = p.grants, p.cost
  extend(g)
  for _, b in ipairs(g.back or newest(p, now, cost)) do
    if b.kind == 0 then
      g.given = g.given + give_own(p, now, b.units)
    elseif b.kind == 1 then
      g.given = g.given + give_carry(p, now, b.units, tonumber(b.name))
    else
      g.given = g.given + give_grant(p, now, b.units, b.name)
    end
  end
  p.cost, g.changed = cost, true
  recount(p, now)
  local _, stop = window_of(p, p.st, now)
  if p.undo and p.undo.reset ~= stop then
    g.given = 0
  end
  granting.answer(p, now, 0, true)
end

-- granting.conclude charges a take if the group passes, and sets its answer. conclude does it for the
-- limit itself.
function granting.conclude(p, pass, now, conclude)
  local cost = p.cost
  if p.op == 2 and pass then
    give_back(p, now)
  elseif p.op == 1 and pass or p.op == 0 and (pass or not p.allowed) then
    local s = split(p, now, cost)
    p.cost = s.own
    conclude(p, pass, now)
    p.cost = cost
    local admitted = cost
    if p.op == 1 and p.most == 0 then -- such a limit counts nothing
      admitted, s.own = cost - s.own, 0
    end
    if p.allowed and pass and admitted > 0 then
      charge(p, now, s, admitted)
    end
  else
    conclude(p, pass, now)
    if pass and p.op > 2 then
      recount(p, now)
    end
  end
  finish(p, now, cost)
  if p.op == 0 and granting.corrects(p) then
    local at = p.old or p
    at.st.dirty = true
  end
end

-- carry_text returns a carry as it is written.
local function carry_text(c)
  return ' ' .. int(c.start) .. ' ' .. int(c.stop) .. ' ' .. int(c.units) .. ' ' .. int(c.used) .. ' ' .. int(c.own) .. ' ' .. int(c.of)
end

-- granting.save writes the book. It reports whether it wrote.
function granting.save(p, now, spare)
  local g = p.grants
  if not g.changed then
    return false
  end
  local c, words, expires = g.old or NO_CARRY, {}, 0
  if g.old then
    expires = c.stop + granting.PERIODS * (c.stop - c.start + (p.letter == 'c' and metering.DAYS or 0))
  end
  for _, id in ipairs(g.ids) do
    local known = g.used[id]
    if known.used > 0 then
      words[#words + 1] = ' ' .. int(known.used) .. ' ' .. int(known.stop) .. ' ' .. #id .. ':' .. id
      expires = max(expires, max(known.stop, now) + KEPT_USE)
    end
  end
  if expires == 0 then
    return call('DEL', g.key) > 0
  end
  local head = g.prior and '2g' .. carry_text(c) .. carry_text(g.prior) or '1g' .. carry_text(c)
  call('SET', g.key, head .. table.concat(words), 'PX', int(spare + ceildiv(max(0, min(expires, END) - now), 1000)))
  return true
end

-- granting.result appends what the answer adds for a take with grants.
function granting.result(p, result)
  local g = p.grants
  local i, s = #result, g.spent
  result[i + 1], result[i + 2], result[i + 3] = g.more, g.carry.units, g.carry.stop
  result[i + 4], result[i + 5] = s and s.carry or 0, s and s.own or 0
  for n = 1, #g.list do
    result[i + 5 + n] = s and s[n] or 0
  end
end

