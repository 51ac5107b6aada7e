-- Decides groups of takes one after another, each all or none.
--
-- KEYS are the keys of all takes in order, except those without a limit. ARGV has for each group
--
--   at        microseconds since 1970, at most 2^52; 0: the time of this server
--   spare     milliseconds that a key outlives its state, 0 to 2^32
--   follows   1: decided only if the group before it was; else 0. 1 + n: also a candidate that
--             stands for take n of the last group whose follows is 0: if another take of that
--             group denies, or that group cannot be decided, its cost counts as 0
--   mode      0: decide; 1: only test each take, as if it were alone; 2: another partition
--             denies the call, so only do what denied takes do (overdraw, count)
--   n         number of takes, 1 or more
--
-- and then for each of its takes
--
--   head      letter and numbers of its limit, as states begin with: "1b 100 60000000 100"
--   op        0 ask, 1 force, 2 give back, 3 reset, 4 settle, 5 ask for at most the cost,
--             6 owe: debit without a test, into a debt of at most the limit
--   cost      units, 0 to 2^48
--   flags     sum of 1 overdraw, 2 count_denied, 4 others borrow from it, 8 it is only a
--             source, 16 it has an undo, 32 it borrows, 64 it has a loan, 128 it has a history,
--             256 it has grants, 512 it is durable
--   wait      max_wait or min_interval in microseconds, -1 for none
--   bounds    calendar windows only: their number, and the starts of that many windows
--             around the time of the call, in order, in microseconds
--   undo      if it has one: the time of that decision, the time at which the key would have
--             been untouched after it, both in microseconds, and limit minus remaining
--   borrows   if it borrows: the number of sources, and for each its index in the group,
--             from 1, and the units
--   loan      if it has one: node, seq, epoch, kept, home, want, 1 if the key starts unused
--             after a loss, else 0, and the epoch that this client remembers
--   history   if it has one: how many periods to keep, the units of which thresholds are
--             percentages, the number of thresholds and each of them, the beginning of the IDs of
--             its events, and its names. Four KEYS follow that of the take: the history, and the
--             usages, the order of events and the events of the partition, see usage.lua
--   grants    if it has them: the most units of a rollover; the number of grants, and for each its
--             ID, its units, 1 if it is used before the limit itself, else 0, its start and its end;
--             the number of sources to which a refund of a certain take goes back, else -1, and for
--             each 0 for the limit itself, 1 for the carry or 2 for a grant, the units, and the end of
--             the carry's period or the ID; for a calendar with a rollover the number of starts of
--             windows around the time of the call and the starts, MAX_IDLE + 1 before and after those
--             of bounds, else 0. One of KEYS follows those of the history: the book, see grants.lua
--   ledger    if it is durable: the era and the seq that this client claims, the last loss that it knows,
--             when the period of the key ends that contains that loss, and the rule. One KEY more
--             follows: the ledger of the partition, see durable.lua
--
-- It returns for each group a list: the time, and for each take
--
--   allowed, remaining, retry_after, reset_after, delay, over, ahead, charged
--
-- over is 2 if a test is denied and the take would write its state all the same. Times are in
-- microseconds, -1 for never; remaining below 0 is a carried debt; ahead is by how much the time
-- at which the take counts is later than the group's, because its key has seen later times;
-- charged are the units of a take that asked for at most its cost; for a penalty it is the level, and
-- 0 for all others. A take with a
-- loan adds
--
--   grant, held, lease, empty, recall, began (below 0 if the epoch follows a loss),
--   process
--
-- and one with grants adds the units that remain of these and of the carry, which remaining does not
-- have, the units of the carry, the end of its period, and what the take was charged: to the carry, to
-- the limit itself, and to each grant,
-- and after the last take there are, if any is durable, the era, the seq and the last loss (0: none).
--
-- Or the element of a group is an error text, and nothing of the group was changed:
-- "STINT-TAKES 2,5 why" if the states of these takes of the group, from 1, cannot be read, which
-- does not affect other groups, or why is STINT-LOST, the loss and the rule of a durable take;
-- "STINT-LOSS lost" if the client did not know that loss; "STINT-WINDOW now" if now is outside the
-- bounds; "STINT-NEEDS
-- head" if a state was written under a kind of limit that is not part of this script;
-- "STINT-AFTER" if it follows a group that was not decided.
--
-- The script reads all states of a group, then tests all takes, then applies them, so that
-- errors come before the first write. Redis notices full memory at the first write, and refuses
-- no later one. Only for a user who may run some commands and not others a later write fails;
-- that error begins with "STINT-PARTLY".

local ASK, FORCE, BACK, RESET, SETTLE, AT_MOST, OWE = 0, 1, 2, 3, 4, 5, 6
local TEST, DENIED = 1, 2 -- modes
local argument, key = 0, 0
local written = false -- whether something of the group was written
local current = 0 -- index of the take in the group that is in work

local function number()
  argument = argument + 1
  return tonumber(ARGV[argument])
end

-- number_at returns the nth argument from here.
local function number_at(n)
  return tonumber(ARGV[argument + n])
end

local function word()
  argument = argument + 1
  return ARGV[argument]
end

-- next_key returns the next of KEYS.
local function next_key()
  key = key + 1
  return KEYS[key]
end

local function numbers(count)
  local list = {}
  for i = 1, count do
    list[i] = number()
  end
  return list
end

-- flag reports whether the highest flag is set, and returns the other flags.
local function flag(flags, bit)
  if flags >= bit then
    return true, flags - bit
  end
  return false, flags
end

local limits = {} -- by head and wait: the fields that takes of the same limit share
local NONE = {}

-- limit_of returns the numbers of a limit, as the metatable of its takes.
local function limit_of(head, wait)
  local name = head .. wait
  local meta = limits[name]
  if not meta then
    local l = { sources = NONE, owed = 0, over = false, allowed = true, retry = 0 }
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
  local has_undo, borrows, has_loan, has_history, has_grants, is_durable = false, false, false, false, false, false
  if flags > 0 then
    is_durable, flags = flag(flags, 512)
    has_grants, flags = flag(flags, 256)
    has_history, flags = flag(flags, 128)
    has_loan, flags = flag(flags, 64)
    borrows, flags = flag(flags, 32)
    has_undo, flags = flag(flags, 16)
    p.only, flags = flag(flags, 8)
    p.source, flags = flag(flags, 4)
    p.count_denied, flags = flag(flags, 2)
    p.overdraw = flag(flags, 1)
  end
  if op == AT_MOST then
    p.op, p.at_most = ASK, cost > 0
  end
  if p.letter == 'c' then
    p.bounds = numbers(number())
  end
  if has_undo then
    p.undo = { at = number(), reset = number(), used = number() }
  end
  if borrows then
    p.borrows, p.sources, p.costs = true, {}, {}
    for i = 1, number() do
      p.sources[i], p.costs[i] = number(), number()
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
    p.key = next_key()
  end
  if has_history then
    metering.read(p, number, word)
    p.meter.key, p.meter.index, p.meter.order, p.meter.events = next_key(), next_key(), next_key(), next_key()
  end
  if has_grants then
    granting.read(p, number, word, next_key())
  end
  if is_durable then
    durable.read(p, number, word)
    p.durable.key = next_key()
  end
  return p
end

local function expiry(p)
  return (p.st.loans and lending or p.kind).expiry(p, p.st)
end

-- A state that was written under other numbers stays under them, as p.old, until it is written
-- anew, as transaction.Record describes. Meanwhile p.st is its meaning under the numbers of p: the same
-- state if those read it unchanged, else the used units as if they had just been taken
-- (p.converts).

-- used_before returns the units in use under the old numbers, with the whole debt.
local function used_before(old, now)
  if old.letter == 'm' and expiry(old) <= now then
    return 0
  end
  return old.kind.used(old, old.st, now)
end

-- reads reports whether a limit reads states of another limit unchanged.
local function reads(head, old)
  if match(head, '^1p') then -- a step that runs ends when it was to end, whatever the new numbers
    return match(old, '^1p') ~= nil
  end
  if match(head, '^1[bshiq]') then -- all but the last number, the burst
    return match(head, '^(.*) %d+$') == match(old, '^(.*) %d+$')
  end
  local letter, rest = match(head, '^1(%a) %d+ (.*)$')
  local other, more = match(old, '^1(%a) %d+ (.*)$')
  return rest == more and (letter == other or match(letter .. other, '^[km][km]$') ~= nil)
end

local function copy(kind, st)
  if kind.copy then
    return kind.copy(st)
  end
  return { t = st.t, n = st.n, stop = st.stop, written = st.written, log = st.log and copy_queue(st.log) }
end

-- unwritten returns the state of an untouched key. It replaces the one in the server.
local function unwritten(p)
  local st = p.kind.blank(p.key)
  st.whole = true
  return st
end

-- adopt sets p.st to the state under the old numbers, unchanged.
local function adopt(p, now)
  local old = p.old
  p.st = copy(p.kind, old.st)
  if p.letter == 'l' and p.st.total > 0 then
    p.st.larger = max(p.st.larger, old.most)
  end
  if p.kind.less and (p.st.written or p.letter == 'd') then
    p.kind.less(p, p.st)
  end
  turn(p, p.st, now)
  mark(p, p.st, now)
  if p.kind.expiry(p, p.st) <= now then
    p.st = unwritten(p)
  end
end

-- convert sets p.st to the units in use under the old numbers.
local function convert(p, now)
  local old = p.old
  turn(old, old.st, now)
  local used = used_before(old, now)
  p.st = unwritten(p)
  if used == 0 then
    return
  elseif not p.kind.full then
    p.kind.blend(p, p.st, now, used)
    if used > p.most and p.letter ~= 'd' then
      p.st.written = now
      p.kind.less(p, p.st)
      turn(p, p.st, now)
    end
    if p.letter == 'l' and p.kind.expiry(p, p.st) <= now then
      p.st = unwritten(p)
    end
  elseif p.step or old.step then
    p.st.t = bucket_add(p, 0, now, used)
  else
    local at = reserved_time(old.st, now)
    local t = old.kind.ends(old, old.st, at)
    p.st.t = min(now + mulup(in_use(old, t, at), p.charge, old.charge), END)
  end
  mark(p, p.st, now)
end

-- look sets p.st from the state under the old numbers.
local function look(p, now)
  local old = p.old
  p.converts, p.stands = false, old.most > 0 and p.most > 0 and reads(p.head, old.head)
  if p.stands then
    adopt(p, now)
  elseif p.most == 0 or old.most == 0 then
    p.st = unwritten(p)
  else
    convert(p, now)
    p.converts = not p.kind.untouched(p.st)
  end
  present(p, p.st, now)
  if old.st.loans then
    lending.carried(p, old.st.loans)
  end
end

-- renew carries a state over: from now on it stands under the numbers of p.
local function renew(p)
  if not p.old then
    return
  end
  if p.letter == 'k' or p.letter == 'm' then
    if not p.stands or not next(p.st.before) then
      call('DEL', p.key)
    end
  end
  p.old, p.st.dirty = nil, true
end

-- wait_for returns the time until a denied cost fits, if the state stays under the old numbers
-- until then.
local function wait_for(p, now, cost)
  local old, left = p.old, p.most - cost
  if p.kind.full then
    return bucket_until(old, old.st, now, level_allowed(p, old, left)) - now
  elseif p.letter == 'l' and not old.st.deferred then
    return log_wait(p, old, now, left) - now
  elseif (p.min_interval or 0) > 0 then
    left = 0
  end
  if old.kind.used(old, old.st, now) <= left then
    return 0
  end
  return old.kind.wait(old, old.st, now, left)
end

-- answer_before sets retry and reset for a state under old numbers. A denied take waits until
-- enough is free under those; or it writes the new numbers, if it then passes sooner and the rest
-- is free no later.
local function answer_before(p, now, cost, looks)
  local left = p.reset
  local _, gone = p.old.kind.report(p.old, p.old.st, now)
  if not looks then
    local wait = max(0, wait_for(p, now, cost))
    p.writes = p.retry < wait and left <= gone
    if p.writes then
      return
    end
    p.retry = wait
  end
  if match(p.letter, '[wcd]') then -- these always return the end of their window
    gone = max(gone, p.kind.none(p, now))
  elseif looks and match(p.letter, '[bh]') then -- these return the end of their use
    gone = min(gone, left)
  end
  p.reset = looks and gone or max(gone, p.retry) -- a reservation may outlast the reset
end

-- answer sets the answer of a take in its present state: p.allowed, p.remaining, p.retry and
-- p.reset.
local function answer(p, now, cost, allowed)
  p.allowed, p.retry, p.delay, p.at, p.writes = allowed, 0, 0, nil, false
  if p.most == 0 then
    p.remaining, p.reset = 0, 0
    if p.kind.none then
      p.reset = p.kind.none(p, now)
    end
  else
    p.remaining, p.reset, p.at, p.level = p.kind.report(p, p.st, now)
  end
  local never = not allowed and cost > p.most and p.letter ~= 'p'
  if never then
    p.retry = huge
  elseif not allowed then
    p.retry = (p.st.loans and lending or p.kind).retry(p, p.st, now, cost)
    if p.kind == kinds.h then -- a reservation may outlast the reset
      p.reset = max(p.reset, p.retry)
    end
  end
  if p.old and p.converts then
    answer_before(p, now, cost, allowed or never)
  end
end

local function fits(p, now, cost)
  return cost == 0 or (cost <= p.most or p.letter == 'p') and p.kind.fits(p, p.st, now, cost)
end

local function add(p, now, cost)
  turn(p, p.st, now)
  p.kind.add(p, p.st, now, cost)
  mark(p, p.st, now)
  p.st.dirty = true
end

-- charge debits units without a test.
local function charge(p, now, units)
  renew(p)
  add(p, now, units)
end

-- count_denied adds a denied take to a log, which grows no longer than its limit allows.
local function count_denied(p, now, cost)
  renew(p)
  turn(p, p.st, now)
  if not p.st.written then
    p.kind.tidy(p, p.st, now)
  end
  local most = max(p.most, p.st.larger, p.st.total)
  add(p, now, cost)
  p.kind.keep_newest(p, p.st, most)
end

-- corrects reports whether a take writes a state that was moved back in time, even if it is denied
-- or a peek: otherwise a client that asks again and again would never see the correction.
local function corrects(p, cost)
  return (p.old or p).st.moved and (cost <= p.most or p.overdraw or p.letter == 'p')
end

-- take takes the cost if it fits.
local function take(p, now, cost)
  if p.most == 0 then
    return answer(p, now, cost, cost == 0)
  end
  if corrects(p, cost) then
    local at = p.old or p
    at.st.dirty = true
  end
  if not p.old and p.kind.tidy and not p.st.deferred and cost > 0 then
    p.kind.tidy(p, p.st, now)
  end
  if fits(p, now, cost) then
    local delay = 0
    if cost > 0 and p.letter ~= 'p' then -- a penalty counts only what is forced
      delay = p.kind.delay and p.kind.delay(p, p.st, now) or 0
      renew(p)
      if p.kind.charge then
        p.kind.charge(p, p.st, now, cost)
        mark(p, p.st, now)
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
    count_denied(p, now, cost)
  elseif p.kind.opens and p.kind.opens(p, p.st, now, cost) then
    renew(p)
    add(p, now, 0)
  end
  answer(p, now, cost, false)
  if p.writes then
    renew(p)
  end
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

-- owe debits units without a test, into a debt of at most the limit.
local function owe(p, now, units)
  if not p.key or p.most == 0 then
    return answer(p, now, 0, true)
  end
  local debit = min(units, UNITS, max(0, 2 * p.most - p.kind.used(p, p.st, now)))
  if debit > 0 then
    charge(p, now, debit)
  end
  answer(p, now, 0, true)
  p.over = debit < units
end

-- act does the operation of a take.
local function act(p, now)
  local charges, at = p.most > 0 and p.cost > 0, p.old or p -- units go back to the numbers under which they were taken
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
    turn(at, at.st, now)
    at.kind.sub(at, at.st, now, min(p.cost, UNITS), p.undo)
    if at.st.loans then
      lending.tidy(at, at.st, now) -- lent units are not given back
    end
    mark(at, at.st, now)
    at.st.dirty, at.st.deferred = true, at.st.written and not at.kind.full -- not deferred any more if the whole excess came back
  elseif p.op == SETTLE and charges and at.kind.settle and p.undo then
    at.kind.settle(at, at.st, now, p.cost, p.undo)
    mark(at, at.st, now)
    at.st.dirty = true
  end
  if p.old then
    look(p, now)
  end
  answer(p, now, 0, true)
end

-- decode returns the state in a text, as it is now.
local function decode(l, text, now)
  local bar = string.find(text, '~', 1, true)
  local rest, written = read_written(bar and string.sub(text, 1, bar - 1) or text)
  local st = l.kind.decode(rest)
  st.written = written
  present(l, st, now)
  if not bar then
    return st
  elseif not lending.read then
    error('STINT-NEEDS ~', 0)
  end
  st.loans = lending.read(string.sub(text, bar + 1))
  lending.tidy(l, st, now)
  return st
end

-- written_as sets p.old to the other numbers under which the state was written.
local function written_as(p, head)
  local l = { key = p.key, found = true }
  if p.bounds and reads(p.head, head) then -- the same calendar
    l.bounds = p.bounds
  end
  p.old = setmetatable(l, { __index = read(head, {}) })
  return p.old
end

local function load(p, now)
  if p.letter == 'c' then
    window(p, now) -- an error here comes before any change
  end
  if p.durable then
    durable.enter(p, now)
  end
  local at, st, head = p, nil, nil
  if p.kind.load then
    st, head = p.kind.load(p.key)
    if head and head ~= p.head then
      at = written_as(p, head)
    end
    present(at, st, now)
  else
    local value, rest = p.key and call('GET', p.key), nil
    if value then
      head, rest = parse(value)
      if head ~= p.head then
        at = written_as(p, head)
      end
      st = decode(at, rest, now)
    else
      st = p.kind.blank()
    end
  end
  p.found, at.st = head ~= nil, st
  st.deferred = st.written and not at.kind.full
  if st.deferred and at == p and not p.kind.lazy then
    turn(p, st, now)
  end
end

-- text returns the text of an error.
local function text(err)
  if type(err) == 'table' then
    return err.err or 'an error without a text' -- as of Redis 7
  end
  return err
end

-- try calls f for a take. A reset works even if the state cannot be read.
local function try(f, p, now)
  if p.op ~= RESET then
    return f(p, now)
  end
  local well, err = pcall(f, p, now)
  if not well and p.key and undecodable(text(err)) then
    p.st, p.old, p.found = p.kind.blank(p.key), nil, true
  elseif not well then
    error(err, 0)
  end
end

-- undecodable_takes answers which states cannot be read: that of the current take, because of why,
-- and any after it.
local function undecodable_takes(group, now, why)
  local places = { current }
  for i = current + 1, #group do
    local read, err = pcall(try, load, group[i], now)
    if not read and undecodable(text(err)) then
      places[#places + 1] = i
    end
  end
  if not match(why, '^STINT') and not string.find(why, 'WRONGTYPE', 1, true) then
    why = 'STINT-STATE is not a state of Stint: ' .. why
  end
  return 'STINT-TAKES ' .. table.concat(places, ',') .. ' ' .. why
end

-- save writes a changed state. It sets an expiry on a key without one, which none of ours is.
local function save(p, now, spare)
  if not p.key then
    return
  end
  local ttl = spare + ceildiv(max(0, expiry(p) - now), 1000)
  if not p.st.dirty then
    if p.found and call('PTTL', p.key) == -1 then
      call('PEXPIRE', p.key, ttl)
    end
  elseif not p.kind.untouched(p.st) or p.st.loans and lending.text(p.st.loans) ~= '' then
    p.kind.save(p.key, p.st, p, ttl)
    written = true
  else
    call('DEL', p.key)
  end
end

-- narrow sets the cost of all takes that ask for at most their cost to one number: the most units
-- that all of them can take, and 1 if one of them can take none.
local function narrow(group, now)
  local units = huge
  for place, p in ipairs(group) do
    current = place
    if p.at_most then
      units = min(units, p.cost)
      if p.grants then
        units = min(units, max(1, granting.remaining(p, now)))
      elseif not fits(p, now, 1) then
        units = 1
      elseif p.key then
        units = min(units, (p.kind.report(p, p.st, now)))
      end
    end
  end
  for _, p in ipairs(group) do
    p.cost = p.at_most and units or p.cost
  end
end

-- test reports whether the group passes.
local function test(group, now)
  for place, p in ipairs(group) do
    current = place
    if p.op == ASK and not p.source then
      if p.grants then
        p.allowed = granting.test(p, now, p.cost)
      else
        p.allowed = fits(p, now, p.cost)
      end
      for i, from in ipairs(p.sources) do
        local source = group[from]
        if p.allowed then
          source.owed = source.owed + p.costs[i]
        else
          source.cost = source.cost + p.costs[i]
        end
      end
    end
  end
  for place, p in ipairs(group) do
    current = place
    if p.source then
      answer(p, now, p.cost, fits(p, now, p.cost))
    end
  end
  local pass = true
  for place, p in ipairs(group) do
    current = place
    if p.borrows and not p.allowed then
      answer(p, now, p.cost, false)
      local over = true
      for _, from in ipairs(p.sources) do
        over = over and group[from].allowed
      end
      if over then
        answer(p, now, 0, true)
      end
      p.allowed, p.over = over, over
    end
    pass = pass and (p.op ~= ASK or p.only or p.allowed)
  end
  return pass
end

-- conclude charges a take if the group passes, and sets its answer.
local function conclude(p, pass, now)
  if p.over then
    answer(p, now, 0, true)
    p.over = pass
  elseif p.source and (pass and p.cost == 0 or not pass and p.allowed) then
    answer(p, now, 0, true)
  elseif pass or p.op == ASK and (not p.allowed or p.overdraw) then
    act(p, now)
  else
    answer(p, now, 0, true)
  end
  if pass and p.owed > 0 then
    owe(p, now, p.owed)
  end
end

-- sooner returns the retry time of a take. A take that borrows can pass in two ways, by its own
-- limit or by all its sources, and waits for the sooner. It uses their present states, as denied
-- takes may have been charged.
local function sooner(group, p)
  if p.allowed or not p.borrows then
    return p.retry
  end
  local wait = 0
  for _, from in ipairs(p.sources) do
    if not group[from].allowed then
      wait = max(wait, group[from].retry)
    end
  end
  return min(p.retry, wait)
end

granting.fits, granting.answer, granting.act = fits, answer, act

local function decide(group, now, spare, mode)
  local any_durable = false
  for place, p in ipairs(group) do
    current = place
    try(load, p, now)
    any_durable = any_durable or p.durable ~= nil
    if p.meter then
      metering.load(p)
    end
    if p.grants then
      granting.load(p, now)
    end
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
  narrow(group, now)
  local pass = test(group, now) and mode ~= DENIED
  local result = { now }
  for place, p in ipairs(group) do
    current = place
    if mode == TEST and p.grants then
      granting.tested(p, now, p.allowed)
    elseif mode == TEST then
      answer(p, now, p.cost, p.allowed)
    elseif p.grants then
      granting.conclude(p, pass, now, conclude)
    elseif p.meter then
      metering.before(p, now)
      conclude(p, pass, now)
    else
      conclude(p, pass, now)
    end
    if p.loan then
      local soon = mode == TEST and p.op == ASK and p.allowed
      lending.lend(p, now, soon and p.cost or 0, renew)
    end
    save(p.old or p, now, spare)
    if p.meter and pass and mode ~= TEST then
      written = metering.after(p, now, spare) or written
      written = p.grants and granting.save(p, now, spare) or written
    end
    local i = #result
    result[i + 1], result[i + 2] = p.allowed and 1 or 0, p.remaining
    p.told, result[i + 3], result[i + 4] = i + 3, 0, p.reset -- the retry time follows when all are concluded
    local over = p.over and 1 or 0
    if mode == TEST and not p.allowed and (p.writes or corrects(p, p.cost) or p.grants and granting.corrects(p)) then
      over = 2
    end
    result[i + 5], result[i + 6], result[i + 7] = p.delay, over, (p.at or now) - now
    result[i + 8] = p.level or pass and p.at_most and p.cost or 0
    local a = p.loan
    if a then
      result[i + 9], result[i + 10], result[i + 11], result[i + 12] = a.grant, a.held, a.lease, a.empty
      result[i + 13], result[i + 14] = a.recall and 1 or 0, a.lost and -a.began or a.began
      result[i + 15] = lending.process()
    end
    if p.grants then
      granting.result(p, result)
    end
  end
  for _, p in ipairs(group) do
    local wait = sooner(group, p)
    result[p.told] = wait == huge and -1 or wait
  end
  if any_durable then
    if written then
      durable.count()
    end
    durable.tell(result)
  end
  return result
end

-- denied_beside reports whether a take of a group other than the nth denies, or nobody knows.
local function denied_beside(group, n)
  for i, p in ipairs(group or NONE) do
    if i ~= n and p.op == ASK and not p.only and not p.allowed then
      return true
    end
  end
  return not group
end

local results, clock_read, decided = {}, nil, true
local first -- the last group whose follows is 0, nil if it could not be decided
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
    if follows > 1 and denied_beside(first, follows - 1) then
      group[1].cost, group[1].at_most = 0, false
    end
    decided, result = pcall(decide, group, now, spare, mode)
    if follows == 0 then
      first = decided and group or nil
    end
    if not decided then
      result = text(result)
      if written then
        result = 'STINT-PARTLY ' .. result
      elseif undecodable(result) then
        decided, result = true, undecodable_takes(group, now, result)
      end
    end
  end
  results[#results + 1] = result
end
return results
