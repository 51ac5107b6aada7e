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
-- Or it is an error text instead: a state that
-- cannot be read; "STINT-WINDOW now" where now is outside the bounds; or "STINT-NEEDS
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

-- What a take answers: p.allowed, p.remaining, p.retry and p.reset at the present state.

local function answer(p, now, cost, allowed)
  p.allowed, p.retry, p.delay, p.at = allowed, 0, 0, nil
  if p.most == 0 then
    p.remaining, p.reset = 0, 0
    if p.kind.none then
      p.reset = p.kind.none(p, now)
    end
  else
    p.remaining, p.reset, p.at = p.kind.report(p, p.st, now)
  end
  if allowed then
    return
  end
  if cost > p.most then
    p.retry = huge
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
    add(p, now, min(cost, UNITS))
  elseif p.count_denied and cost <= p.most then
    add(p, now, cost)
    p.kind.keep_newest(p, p.st, p.most)
  elseif p.kind.opens and p.kind.opens(p, p.st, now, cost) then
    add(p, now, 0)
  end
  answer(p, now, cost, false)
end

local function expiry(p)
  return (p.st.loans and lending or p.kind).expiry(p, p.st)
end

local function reset(p, now)
  if p.st.loans then
    return lending.reset(p, now)
  end
  call('DEL', p.key)
  p.st = p.kind.blank(p.key)
  p.found = false
end

-- owe debits units unasked, into a debt of no more than the limit.
local function owe(p, now, units)
  if not p.key or p.most == 0 then
    return answer(p, now, 0, true)
  end
  local debit = min(units, UNITS, max(0, 2 * p.most - p.kind.used(p, p.st, now)))
  if debit > 0 then
    add(p, now, debit)
  end
  answer(p, now, 0, true)
  p.over = debit < units
end

-- act does what the take is for.
local function act(p, now)
  local charges = p.most > 0 and p.cost > 0
  if p.op == ASK then
    return take(p, now, p.cost)
  elseif p.op == OWE then
    return owe(p, now, p.cost)
  elseif not p.key then -- no limit: nothing to change
  elseif p.op == RESET then
    reset(p, now)
  elseif p.op == FORCE and charges then
    add(p, now, min(p.cost, UNITS))
  elseif p.op == BACK and charges and expiry(p) > now then
    p.kind.sub(p, p.st, now, min(p.cost, UNITS), p.undo)
    p.st.dirty = true
  elseif p.op == SETTLE and charges and p.kind.settle and p.undo then
    p.kind.settle(p, p.st, now, p.cost, p.undo)
    p.st.dirty = true
  end
  answer(p, now, 0, true)
end

-- carry turns a state written under other numbers into one of p: what was used under
-- the old ones counts as just taken.
local function carry(p, now)
  local old = p.old
  local used = 0
  if old.most > 0 and p.most > 0 then
    used = min(old.kind.used(old, p.st, now), old.most, p.most)
    if old.letter == 'm' and old.kind.expiry(old, p.st) <= now then
      used = 0
    end
  end
  local loans = p.st.loans
  p.st.loans = nil
  reset(p, now)
  if used > 0 and p.letter == 'm' then
    p.kind.carried(p, p.st, now, used)
    p.st.dirty = true
  elseif used > 0 then
    add(p, now, used)
  end
  if loans then
    lending.carried(p, loans)
  end
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

local function load(p, now)
  if p.letter == 'c' then
    window(p, now) -- or an error, while nothing is changed
  end
  if p.kind.load then
    local head
    p.st, head = p.kind.load(p.key)
    p.found = head ~= nil
    if head and head ~= p.head then
      p.old = read(head, {})
    end
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
  p.old = read(head, {})
  p.st = decode(p.old, rest, now)
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
  for _, p in ipairs(group) do
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
  for _, p in ipairs(group) do
    if p.held then
      answer(p, now, p.cost, fits(p, now, p.cost))
    end
  end
  local pass = true
  for _, p in ipairs(group) do
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
  for _, p in ipairs(group) do
    load(p, now)
  end
  for _, p in ipairs(group) do
    if p.old then
      carry(p, now)
    end
  end
  for _, p in ipairs(group) do
    if p.loan then
      lending.report(p, now)
    end
  end
  local pass = test(group, now) and mode ~= DENIED
  local result = { now }
  for _, p in ipairs(group) do
    if mode == TEST then
      answer(p, now, p.cost, p.allowed)
    else
      conclude(p, pass, now)
    end
    if p.loan then
      local soon = mode == TEST and p.op == ASK and p.allowed
      lending.lend(p, now, soon and p.cost or 0)
    end
    save(p, now, spare)
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
      if type(result) == 'table' then
        result = result.err or 'an error without a text' -- as of Redis 7
      end
      if written then
        result = 'STINT-PARTLY ' .. result
      end
    end
  end
  results[#results + 1] = result
end
return results
