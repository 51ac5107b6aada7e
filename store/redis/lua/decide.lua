-- Decides groups of takes one after another, each all or none.
--
-- KEYS are the buckets of all takes in order, one for each but those without a limit.
-- ARGV says of each group
--
--   at        microseconds since 1970, at most 2^52; 0: the time of this server
--   spare     milliseconds that a key outlives its state, 0 to 2^32
--   follows   1 if it is decided only if the group before it was, else 0
--   mode      0 decide; 1 only test what is asked, and answer as if it were alone; 2 the
--             call is denied elsewhere: only do what denied takes do (overdraw, count)
--   n         takes, 1 or more
--
-- and then of each of its takes
--
--   head      numbers of its limit, as states carry them: "1b 100 60000000 100"
--   op        0 ask, 1 force, 2 give back, 3 reset, 4 settle, 5 owe: debit unasked, into
--             a debt of no more than the limit
--   cost      units, 0 to 2^48
--   flags     sum of 1 overdraw, 2 count_denied, 4 others lean on it, 8 and nobody
--             asks it, 16 it has an undo, 32 it leans, 64 it has a loan
--   wait      max_wait or min_interval in microseconds, -1 for none
--   bounds    calendar windows only: how many, and so many microseconds in order,
--             where windows around the time of the call begin
--   undo      if there is one: when it was decided, when the key was to be untouched
--             after it, both in microseconds, and limit less remaining
--   leans     if it leans: on how many, and of each the place in the group, from 1,
--             and the units
--   loan      if it has one: node, seq, epoch, kept, home, want, 1 if the key starts full
--             after a loss, else 0, and the epoch that this client remembers
--
-- It returns for each group a list: the time, and of each take
--
--   allowed, remaining, retry_after, reset_after, delay, over, ahead
--
-- with times in microseconds and -1 for never; remaining below 0 is a debt that is carried; ahead is how much later than the time
-- of the group the take counts, where its key has seen later ones. A take with a loan adds
--
--   grant, held, lease, empty, recall, began
--
-- Or it is an error text instead: "STINT-TAKES 2,5 why" where the states of these takes of the
-- group, from 1, cannot be read, which keeps no other group from being decided;
-- "STINT-WINDOW now" where now is outside the bounds; or "STINT-NEEDS
-- head" where a state was written under a kind of limit that is not part of this
-- script; "STINT-AFTER" where it follows one that was not decided. Then nothing of the
-- group was changed.
--
-- All states of a group are read, then all takes are tested, then all are applied, so
-- that whatever goes wrong does so before the first is written. Memory that is full is
-- noticed by Redis at the first write, and after one has passed no other is refused. Only
-- a user who may run some commands and not others fails later; "STINT-PARTLY" stands
-- before that error.

local ASK, FORCE, BACK, RESET, SETTLE, OWE = 0, 1, 2, 3, 4, 5
local TEST, DENIED = 1, 2 -- modes
local argument, key = 0, 0
local written = false -- whether anything of the group was
local current = 0 -- the take of the group whose state is looked at

local function number()
  argument = argument + 1
  return tonumber(ARGV[argument])
end

-- number_at returns the nth argument from here.
local function number_at(n)
  return tonumber(ARGV[argument + n])
end

local function numbers(count)
  local list = {}
  for i = 1, count do
    list[i] = number()
  end
  return list
end

-- flag takes the highest of flags off: whether it is set, and the rest.
local function flag(flags, bit)
  if flags >= bit then
    return true, flags - bit
  end
  return false, flags
end

local limits = {} -- by head and wait: what takes of the same limit have in common
local NONE = {}

-- limit_of returns the numbers of a limit, as the metatable of takes that ask it.
local function limit_of(head, wait)
  local name = head .. wait
  local meta = limits[name]
  if not meta then
    local l = { on = NONE, owed = 0, over = false, allowed = true, retry = 0 }
    if wait ~= '-1' then
      l.wait = tonumber(wait)
    end
    meta = { __index = read(head, l) }
    limits[name] = meta
  end
  return meta
end

-- next_take reads the arguments of one take.
local function next_take()
  local head, op, cost, flags, wait = ARGV[argument + 1], number_at(2), number_at(3), number_at(4), ARGV[argument + 5]
  argument = argument + 5
  local p = setmetatable({ op = op, cost = cost }, limit_of(head, wait))
  local has_undo, leans, has_loan = false, false, false
  if flags > 0 then
    has_loan, flags = flag(flags, 64)
    leans, flags = flag(flags, 32)
    has_undo, flags = flag(flags, 16)
    p.only, flags = flag(flags, 8)
    p.held, flags = flag(flags, 4)
    p.count_denied, flags = flag(flags, 2)
    p.overdraw = flag(flags, 1)
  end
  if p.letter == 'c' then
    p.bounds = numbers(number())
  end
  if has_undo then
    p.undo = { at = number(), reset = number(), used = number() }
  end
  if leans then
    p.leans, p.on, p.costs = true, {}, {}
    for i = 1, number() do
      p.on[i], p.costs[i] = number(), number()
    end
  end
  if has_loan then
    local a = numbers(8)
    p.loan = {
      node = a[1], seq = a[2], epoch = a[3], kept = a[4], home = a[5], want = a[6], after_loss = a[7] == 1, known = a[8],
      grant = 0, held = 0, lease = 0, empty = 0, recall = false, began = 0,
    }
  end
  if p.letter ~= 'u' then
    key = key + 1
    p.key = KEYS[key]
  end
  return p
end

local function expiry(p)
  return (p.st.loans and lending or p.kind).expiry(p, p.st)
end

-- A state that was written under other numbers stays under them, as p.old, until something
-- is charged, as carry.Record has it. Meanwhile p.st is what it means under the numbers of
-- p: of p.carried units, they were just taken.

-- used_before returns what counts as taken under the old numbers, a debt whole.
local function used_before(old, now)
  if old.most == 0 or old.letter == 'm' and expiry(old) <= now then
    return 0
  end
  return old.kind.used(old, old.st, now)
end

-- put puts units into a state that is that of an untouched key.
local function put(p, st, now, units)
  if p.letter == 'm' then
    p.kind.carried(p, st, now, units)
  elseif units > 0 then
    p.kind.add(p, st, now, units)
  end
end

-- look makes p.st of what is under the old numbers.
local function look(p, now)
  local old = p.old
  p.carried = min(used_before(old, now), old.most, p.most)
  if p.kind.seen then
    p.st = p.kind.seen(p, now, p.carried)
    return
  end
  p.st = p.kind.blank(p.key)
  if p.carried > 0 then
    put(p, p.st, now, p.carried)
  end
  if old.st.loans then
    lending.carried(p, old.st.loans, now)
  end
end

-- renew carries a state over: from now on it stands under the numbers of p.
local function renew(p, now)
  if not p.old then
    return
  end
  if p.kind.load then -- which writes piece by piece, not the whole
    call('DEL', p.key)
    p.st = p.kind.blank(p.key)
    if p.carried > 0 then
      put(p, p.st, now, p.carried)
    end
  end
  p.old, p.st.dirty = nil, true
end

-- until_left returns how long until so much is gone under the old numbers that cost units
-- fit under those of p.
local function until_left(p, now, cost)
  local old, left, retry = p.old, p.most - cost, 0
  if p.letter == 'q' and p.wait < huge then
    left = min(left, floor(p.wait / p.charge))
  end
  local n = old.most - left
  if n > 0 and not old.kind.fits(old, old.st, now, n) then
    retry = (old.st.loans and lending or old.kind).retry(old, old.st, now, n)
  end
  if (p.min_interval or 0) > 0 then
    retry = max(retry, old.st.last + min(p.min_interval, old.per) - now)
  end
  return retry
end

-- reset_before returns when a key under old numbers will be untouched.
local function reset_before(p, now)
  if match(p.letter, '[bhwcd]') then -- which tell what is used, or when their own window ends
    return p.reset
  elseif (p.min_interval or 0) > 0 then
    return max(0, p.old.st.last + p.per - now)
  end
  local _, after = p.old.kind.report(p.old, p.old.st, now)
  return after
end

-- What a take answers: p.allowed, p.remaining, p.retry and p.reset at the present state.

local function answer(p, now, cost, allowed)
  p.allowed, p.retry, p.delay, p.at = allowed, 0, 0, nil
  local before = p.old and p.carried > 0
  if p.most == 0 then
    p.remaining, p.reset = 0, 0
    if p.kind.none then
      p.reset = p.kind.none(p, now)
    end
  else
    p.remaining, p.reset, p.at = p.kind.report(p, p.st, now)
    if before then
      p.reset = reset_before(p, now)
    end
  end
  if allowed then
    return
  end
  if cost > p.most then
    p.retry = huge
  elseif before then
    p.retry = until_left(p, now, cost)
  elseif p.st.loans then
    p.retry = lending.retry(p, p.st, now, cost)
  else
    p.retry = p.kind.retry(p, p.st, now, cost)
  end
end

local function fits(p, now, cost)
  return cost == 0 or cost <= p.most and p.kind.fits(p, p.st, now, cost)
end

local function add(p, now, cost)
  p.kind.add(p, p.st, now, cost)
  p.st.dirty = true
end

-- charge debits units that nobody asks for. Where more is used than a new, lower limit
-- holds, nothing is cut: they are added under the old numbers. It returns where.
local function charge(p, now, units)
  local old = p.old
  if old and p.most <= old.most and used_before(old, now) > p.most then
    add(old, now, units)
    return old
  end
  renew(p, now)
  add(p, now, units)
  return p
end

-- take asks for the cost and takes it if it is there.
local function take(p, now, cost)
  if p.most == 0 then
    return answer(p, now, cost, cost == 0)
  end
  if p.kind.tidy then
    p.kind.tidy(p, p.st, now)
  end
  if fits(p, now, cost) then
    local delay = 0
    if cost > 0 then
      delay = p.kind.delay and p.kind.delay(p, p.st, now) or 0
      renew(p, now)
      if p.kind.charge then
        p.kind.charge(p, p.st, now, cost)
        p.st.dirty = true
      else
        add(p, now, cost)
      end
    end
    answer(p, now, 0, true)
    p.delay = delay
    return
  end
  if p.overdraw then
    charge(p, now, min(cost, UNITS))
  elseif p.count_denied and cost <= p.most then
    local at = charge(p, now, cost)
    at.kind.keep_newest(at, at.st, at.most)
  elseif p.kind.opens and p.kind.opens(p, p.st, now, cost) then
    renew(p, now)
    add(p, now, 0)
  end
  answer(p, now, cost, false)
end

local function reset(p, now)
  local at = p.old or p
  if at.st.loans then
    lending.reset(at, now)
  else
    call('DEL', p.key)
    p.st, p.old, p.found = p.kind.blank(p.key), nil, false
  end
end

-- owe debits units unasked, into a debt of no more than the limit.
local function owe(p, now, units)
  if not p.key or p.most == 0 then
    return answer(p, now, 0, true)
  end
  local before = p.old and p.carried > 0
  local used = before and used_before(p.old, now) or p.kind.used(p, p.st, now)
  local debit = min(units, UNITS, max(0, 2 * p.most - used))
  if debit > 0 then
    charge(p, now, debit)
  end
  answer(p, now, 0, true)
  p.over = debit < units
end

-- act does what the take is for.
local function act(p, now)
  local charges, at = p.most > 0 and p.cost > 0, p.old or p -- what is given back is so where it stands
  if p.op == ASK then
    return take(p, now, p.cost)
  elseif p.op == OWE then
    return owe(p, now, p.cost)
  elseif not p.key then -- no limit: nothing to change
  elseif p.op == RESET then
    reset(p, now)
  elseif p.op == FORCE and charges then
    charge(p, now, min(p.cost, UNITS))
  elseif p.op == BACK and charges and expiry(at) > now then
    at.kind.sub(at, at.st, now, min(p.cost, UNITS), p.undo)
    at.st.dirty = true
  elseif p.op == SETTLE and charges and at.kind.settle and p.undo then
    at.kind.settle(at, at.st, now, p.cost, p.undo)
    at.st.dirty = true
  end
  if p.old then
    look(p, now)
  end
  answer(p, now, 0, true)
end

-- decode returns the state of a limit that a text says, as it is now.
local function decode(l, text, now)
  local bar = string.find(text, '~', 1, true)
  if not bar then
    return l.kind.decode(text)
  elseif not lending.read then
    error('STINT-NEEDS ~', 0)
  end
  local st = l.kind.decode(string.sub(text, 1, bar - 1))
  st.loans = lending.read(string.sub(text, bar + 1))
  lending.tidy(l, st, now)
  return st
end

-- written_as says under which other numbers the state was written.
local function written_as(p, head)
  p.old = setmetatable({ key = p.key, found = true }, { __index = read(head, {}) })
  return p.old
end

local function load(p, now)
  if p.letter == 'c' then
    window(p, now) -- or an error, while nothing is changed
  end
  if p.kind.load then
    local st, head = p.kind.load(p.key)
    p.found = head ~= nil
    local at = p
    if head and head ~= p.head then
      at = written_as(p, head)
    end
    at.st = st
    return
  end
  local value = p.key and call('GET', p.key)
  if not value then
    p.st = p.kind.blank()
    return
  end
  local head, rest = parse(value)
  p.found = true
  if head == p.head then
    p.st = decode(p, rest, now)
    return
  end
  local old = written_as(p, head)
  old.st = decode(old, rest, now)
end

-- text returns what an error says.
local function text(err)
  if type(err) == 'table' then
    return err.err or 'an error without a text' -- as of Redis 7
  end
  return err
end

-- try calls f for a take. Whoever resets a key need not be able to read what it holds.
local function try(f, p, now)
  if p.op ~= RESET then
    return f(p, now)
  end
  local well, err = pcall(f, p, now)
  if not well and p.key and unreadable(text(err)) then
    p.st, p.old, p.found = p.kind.blank(p.key), nil, true
  elseif not well then
    error(err, 0)
  end
end

-- unread says whose states cannot be read: that of the current take, for which there is a
-- reason why not, and of those behind it.
local function unread(group, now, why)
  local places = { current }
  for i = current + 1, #group do
    local read, err = pcall(try, load, group[i], now)
    if not read and unreadable(text(err)) then
      places[#places + 1] = i
    end
  end
  if not match(why, '^STINT') and not string.find(why, 'WRONGTYPE', 1, true) then
    why = 'STINT-STATE is not a state of Stint: ' .. why
  end
  return 'STINT-TAKES ' .. table.concat(places, ',') .. ' ' .. why
end

-- save writes a state that was changed, and gives a key that lives for ever, which
-- none of ours does, an end.
local function save(p, now, spare)
  if not p.key then
    return
  end
  local ttl = spare + ceildiv(max(0, expiry(p) - now), 1000)
  if not p.st.dirty then
    if p.found and call('PTTL', p.key) == -1 then
      call('PEXPIRE', p.key, ttl)
    end
  elseif not p.kind.untouched(p.st) or p.st.loans and #p.st.loans > 0 then
    p.kind.save(p.key, p.st, p, ttl)
    written = true
  else
    call('DEL', p.key)
  end
end

-- test says whether the group passes.
local function test(group, now)
  for place, p in ipairs(group) do
    current = place
    if p.op == ASK and not p.held then
      p.allowed = fits(p, now, p.cost)
      for i, on in ipairs(p.on) do
        local leaned = group[on]
        if p.allowed then
          leaned.owed = leaned.owed + p.costs[i]
        else
          leaned.cost = leaned.cost + p.costs[i]
        end
      end
    end
  end
  for place, p in ipairs(group) do
    current = place
    if p.held then
      answer(p, now, p.cost, fits(p, now, p.cost))
    end
  end
  local pass = true
  for place, p in ipairs(group) do
    current = place
    if p.leans and not p.allowed then
      answer(p, now, p.cost, false)
      local over, retry = true, 0
      for _, on in ipairs(p.on) do
        if not group[on].allowed then
          over, retry = false, max(retry, group[on].retry)
        end
      end
      p.allowed, p.over, p.retry = over, over, min(p.retry, retry)
    end
    pass = pass and (p.op ~= ASK or p.only or p.allowed)
  end
  return pass
end

-- conclude charges a take if the group passes, and answers it.
local function conclude(p, pass, now)
  local retry = p.retry -- the sooner of two ways, where it leans
  if p.over then
    answer(p, now, 0, true)
    p.over = pass
  elseif p.held and (pass and p.cost == 0 or not pass and p.allowed) then
    answer(p, now, 0, true)
  elseif pass or p.op == ASK and (not p.allowed or p.overdraw) then
    act(p, now)
  else
    answer(p, now, 0, true)
  end
  if p.leans and not p.allowed then
    p.retry = min(p.retry, retry)
  end
  if pass and p.owed > 0 then
    owe(p, now, p.owed)
  end
end

local function decide(group, now, spare, mode)
  for place, p in ipairs(group) do
    current = place
    try(load, p, now)
  end
  for place, p in ipairs(group) do
    current = place
    if p.loan then
      lending.report(p, p.old or p, now)
    end
    if p.old then
      try(look, p, now)
    end
  end
  local pass = test(group, now) and mode ~= DENIED
  local result = { now }
  for place, p in ipairs(group) do
    current = place
    if mode == TEST then
      answer(p, now, p.cost, p.allowed)
    else
      conclude(p, pass, now)
    end
    if p.loan then
      local soon = mode == TEST and p.op == ASK and p.allowed
      lending.lend(p, now, soon and p.cost or 0, renew)
    end
    save(p.old or p, now, spare)
    local i = #result
    result[i + 1], result[i + 2] = p.allowed and 1 or 0, p.remaining
    result[i + 3], result[i + 4] = p.retry == huge and -1 or p.retry, p.reset
    result[i + 5], result[i + 6], result[i + 7] = p.delay, p.over and 1 or 0, (p.at or now) - now
    local a = p.loan
    if a then
      result[i + 8], result[i + 9], result[i + 10], result[i + 11] = a.grant, a.held, a.lease, a.empty
      result[i + 12], result[i + 13] = a.recall and 1 or 0, a.began
    end
  end
  return result
end

local results, clock_read, decided = {}, nil, true
while argument < #ARGV do
  local now, spare, follows, mode, count = number(), number(), number(), number(), number()
  if now == 0 then
    if not clock_read then
      local time = call('TIME')
      clock_read = tonumber(time[1]) * 1000000 + tonumber(time[2])
    end
    now = clock_read
  end
  local group = {}
  for i = 1, count do
    group[i] = next_take()
  end
  local result = 'STINT-AFTER'
  if decided or follows == 0 then
    written = false
    decided, result = pcall(decide, group, now, spare, mode)
    if not decided then
      result = text(result)
      if written then
        result = 'STINT-PARTLY ' .. result
      elseif unreadable(result) then
        decided, result = true, unread(group, now, result)
      end
    end
  end
  results[#results + 1] = result
end
return results
