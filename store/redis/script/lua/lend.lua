-- Lends units of a token bucket that fills steadily, or of a fixed window, to nodes. The loans
-- of a state follow a tilde at its end:
--
--   1b 100 60000000 100|1767225600123456~1767225500000000 0 42 7 20 20 1767225600100000
--
-- with the epoch of the loans, the time until which nothing more is lent, and for each loan, by
-- age: the node (0: loans of a lost epoch), the number of its last ask, units possibly
-- unspent, units granted by that ask, its time. As in lend.go,
--
--   used = max(t - now, lent * charge)
--
-- which load adds to t, so that all other functions need not know loans. Times are microseconds.
-- The last two of KEYS are the epoch's, whose value is
--
--   1767225500000000 0 2f11c6480911d74e      when it began, 1 if an epoch before it was lost,
--                                            and the server that wrote it
--
-- and the process's, by which the quick scripts recognize the epoch and the server without INFO,
-- which costs more than their whole work:
--
--   1767225500000000 0 table: 0x7fa522c29390 the same, and where this process has its interpreter.
--                                            A server that starts again almost surely has it
--                                            elsewhere
--
-- lease.lua does the same for most messages of nodes, in less time.

function lending.read(text)
  local began, called, rest = match(text, '^(%d+) (%d+)(.*)$')
  if not began then
    foreign(text)
  end
  local loans = { began = tonumber(began), called = tonumber(called) }
  for node, seq, lent, grant, at in string.gmatch(rest, ' (%d+) (%d+) (%d+) (%d+) (%d+)') do
    loans[#loans + 1] = {
      node = tonumber(node), seq = tonumber(seq), lent = tonumber(lent), grant = tonumber(grant), at = tonumber(at),
    }
  end
  return loans
end

-- text returns the loans as they stand in a state: nothing if the state counts the same without, see
-- lent_units in loans.lua.
function lending.text(loans)
  if loans.idle and #loans == 0 then
    return ''
  end
  local words = { '~' .. int(loans.began), int(loans.called) }
  for _, o in ipairs(loans) do
    words[#words + 1] = table.concat({ int(o.node), int(o.seq), int(o.lent), int(o.grant), int(o.at) }, ' ')
  end
  return table.concat(words, ' ')
end

local function lent_of(loans)
  local sum = 0
  for _, o in ipairs(loans) do
    sum = sum + o.lent
  end
  return sum
end

lending.lent = lent_of -- for window.lua

local function loan_of(loans, node)
  for i, o in ipairs(loans) do
    if o.node == node then
      return o, i
    end
  end
end

local function put(loans, loan)
  local _, i = loan_of(loans, loan.node)
  if i then
    table.remove(loans, i)
  end
  i = #loans + 1
  while i > 1 and loans[i - 1].at > loan.at do
    i = i - 1
  end
  table.insert(loans, i, loan)
end

local function smooth(l)
  return l.letter == 'b'
end

local function leasable(p)
  return not p.overdraw and p.most >= 2 * PART and (smooth(p) or p.kind == kinds.w)
end

-- present_loans changes loans from the future, which a clock that was ahead made, to loans made
-- now.
local function present_loans(st, loans, now)
  if loans.called > now + SKEW then
    loans.called, st.moved = now, true
  end
  for _, o in ipairs(loans) do
    if o.at > now + SKEW then
      o.at, st.moved = now, true
    end
  end
  if st.moved then
    table.sort(loans, function(a, b)
      return a.at < b.at
    end)
  end
end

-- tidy brings a state up to now. It writes off old loans, and those of a window that is over. Nodes
-- that asked since then stay in the list, those with nothing lent for as long as they count as asking.
function lending.tidy(l, st, now)
  local loans = st.loans
  present_loans(st, loans, now)
  if smooth(l) then
    local lent = lent_of(loans)
    while loans[1] and loans[1].at + LIFE <= now do
      local o = table.remove(loans, 1)
      st.t = max(st.t, o.at + LIFE + lent * l.charge)
      lent = lent - o.lent
    end
    if l.most > 0 then
      st.t = max(st.t, now + lent * l.charge)
    end
  end
  local stop = not smooth(l) and st.n > 0 and window_stop(l, st) or 0 -- 0: nothing was taken
  local over = stop > 0 and stop <= now
  for i = #loans, 1, -1 do
    local o = loans[i]
    if o.at + LIFE <= now or o.lent == 0 and o.at + ACTIVE <= now or over and (o.at < stop or o.lent > 0) then
      table.remove(loans, i)
    end
  end
end

-- ends returns t, and a list of the lent units and until when, as kinds.b.ends does.
function lending.ends(_, st)
  local list = {}
  for i, o in ipairs(st.loans) do
    list[i] = { at = o.at + LIFE, n = o.lent }
  end
  return st.t, list
end

-- retry returns when cost units fit if no node reports or returns its loan.
function lending.retry(l, st, now, cost)
  if not smooth(l) then
    return l.kind.retry(l, st, now, cost)
  end
  local t, lent = st.t, lent_of(st.loans)
  for _, o in ipairs(st.loans) do
    local ready = now + bucket_retry(l, t, now, cost)
    if lent + cost <= l.most and ready < o.at + LIFE then
      return ready - now
    end
    t = max(t, o.at + LIFE + lent * l.charge)
    lent = lent - o.lent
  end
  return bucket_retry(l, t, now, cost)
end

function lending.expiry(l, st)
  local last = st.loans[#st.loans]
  if not last or not smooth(l) then
    return l.kind.expiry(l, st)
  end
  local t, lent = st.t, lent_of(st.loans)
  for _, o in ipairs(st.loans) do
    t = max(t, o.at + LIFE + lent * l.charge)
    lent = lent - o.lent
  end
  return max(last.at + LIFE, t)
end

-- reset makes a state that of an untouched key, except for its loans.
function lending.reset(p, now)
  local old = p.st
  p.st = p.kind.blank(p.key)
  p.st.loans, p.st.dirty = old.loans, true
  if not smooth(p) then
    p.st.n = min(old.n, lent_of(old.loans))
    if p.st.n > 0 then
      p.st.t, p.st.stop = old.t, old.stop
    end
  end
  lending.tidy(p, p.st, now)
end

-- carried adds the loans to a state that is seen under other numbers.
function lending.carried(p, loans)
  p.st.loans = leasable(p) and loans or nil
end

local epoch

-- enter_epoch returns the epoch in which an ask is answered; known is the epoch that the node
-- remembers. An epoch that cannot be read counts as lost: somebody wrote over it.
local function enter_epoch(now, known)
  local first = not epoch
  if first then
    local text = redis.pcall('GET', KEYS[#KEYS - 1])
    local began, lost, run = match(type(text) == 'string' and text or '', '^(%d+) (%d) (%w+)$')
    epoch = { began = tonumber(began or 0), lost = lost == '1', run = run }
    epoch.here = match(call('INFO', 'server'), 'run_id:(%w+)')
  end
  local begins, lost = nil, true
  if epoch.began == 0 then
    begins, lost = now, known > 0
  elseif epoch.run ~= epoch.here or known > epoch.began or known > 0 and known ~= epoch.began and not epoch.lost then
    begins = max(now, epoch.began + 1)
  end
  if begins then
    epoch.began, epoch.lost, epoch.run = begins, lost, epoch.here
    call('SET', KEYS[#KEYS - 1], int(begins) .. (lost and ' 1 ' or ' 0 ') .. epoch.here)
  end
  if begins or first then
    local process = int(epoch.began) .. (epoch.lost and ' 1 ' or ' 0 ') .. tostring(redis)
    if redis.pcall('GET', KEYS[#KEYS]) ~= process then
      call('SET', KEYS[#KEYS], process)
    end
  end
  return epoch
end

-- process returns the address of this process's interpreter.
function lending.process()
  return tonumber(match(tostring(redis), '0x(%x+)$') or '0', 16)
end

-- suspect sets p.st to the state of a key that may have been used up when the epoch began, and all
-- of whose possible loans may be unspent. What the state counts beyond that stays used: the key may
-- have been used since.
local function suspect(p, now, began)
  local old, used = p.st, p.kind.used(p, p.st, now)
  p.st = p.kind.blank(p.key)
  p.st.loans = { called = 0 }
  if smooth(p) then
    p.st.t = max(old.t, began + p.full)
    put(p.st.loans, { node = 0, seq = 0, lent = floor(p.most / PART), grant = 0, at = began })
    mark(p, p.st, now)
    return
  end
  if p.letter == 'c' and not p.bounds then -- of another calendar: as if all its windows had one length
    p.st.t, p.st.n = floats(p, began) and began or began + 1, p.most
    p.st.stop = p.st.t + length(p)
  elseif p.letter ~= 'c' or bounded(p, began) then -- otherwise that window is over
    p.kind.add(p, p.st, began, p.most)
  end
  if p.kind.used(p, p.st, now) <= used then
    old.loans, p.st = p.st.loans, old
  end
end

-- report books in a state what a node did with its loan. p has the state, under other numbers than
-- those of asks if it was written so.
function lending.report(asks, p, now)
  local a = asks.loan
  local e = enter_epoch(now, a.known)
  a.began, a.lost = e.began, e.lost
  if not leasable(asks) or not leasable(p) then
    return
  end
  local st = p.st
  if not st.loans or st.loans.began ~= e.began then
    if e.lost and not a.after_loss then
      suspect(p, now, min(e.began, now))
      st = p.st
    elseif not st.loans and a.node == 0 and not e.lost then
      return -- nothing is lent, and no epoch was lost
    elseif not st.loans then
      st.loans = { called = 0 }
    end
    st.loans.began = e.began
    st.dirty = true
  end
  turn(p, st, now)
  lending.tidy(p, st, now)
  st.loans.idle = st.loans.called <= now and (a.after_loss or not e.lost)
  local o = loan_of(st.loans, a.node)
  if not o or a.node == 0 or a.seq <= o.seq or a.epoch ~= e.began and not a.after_loss then
    return
  end
  local kept = min(a.kept, o.lent)
  local home = min(a.home, o.lent - kept)
  o.lent = kept
  st.dirty = true
  if smooth(p) then
    st.t = max(0, st.t - home * p.charge)
  else
    st.n = st.n - min(st.n, home)
  end
  mark(p, st, now)
end

local function active(loans, now, but)
  local n = 0
  for _, o in ipairs(loans) do
    if o.node ~= 0 and o.node ~= but and o.at + ACTIVE > now then
      n = n + 1
    end
  end
  return n
end

-- shared returns how long a bucket that is short is left alone, if so much of it refills meanwhile that it is
-- lent in equal parts to nodes that would get none otherwise.
local function shared(p, now)
  if smooth(p) and p.st.loans.called <= now then
    local pause = min(PAUSE, floor(p.full / PART))
    return SHARE * (1 + active(p.st.loans, now, p.loan.node)) * p.charge <= pause and pause
  end
end

local function window_end(p, now)
  local _, stop = window_of(p, p.st, now)
  return stop
end

-- pause returns for how long nobody need ask; short is for how long a bucket is left alone.
local function pause(p, now, units, short)
  local retry = 0
  if units <= 0 then
    retry = lending.retry(p, p.st, now, 1)
  end
  if smooth(p) then
    return max(retry, short or 0)
  end
  if units <= 0 and lent_of(p.st.loans) == 0 then
    return retry
  end
  return min(PAUSE, floor((window_end(p, now) - now) / 16))
end

local function grant(p, now, units)
  local loans, a = p.st.loans, p.loan
  if loans.called > now then
    return 0
  end
  local lost, lent = loan_of(loans, 0), lent_of(loans)
  if lost then
    lent = lent - lost.lent
  end
  local may, part = floor(p.most / PART) - lent, floor(units / (1 + active(loans, now, a.node)))
  local n = min(a.want, floor(may / 2), floor(part / 2))
  if n >= min(a.want, LEAST) then
    return n
  end
  n = min(a.want, may, part)
  return n >= min(a.want, SHARE) and shared(p, now) and n or 0
end

local function how_long(p, o, now)
  local ends = o.at + LIFE
  if not smooth(p) then
    ends = min(ends, window_end(p, now))
  end
  return floor(max(0, ends - now) / 1000) * 1000 * SPENT
end

local function lend(p, now, renew)
  local a, loans = p.loan, p.st.loans
  local o = loan_of(loans, a.node) or { node = a.node, seq = 0, lent = 0, grant = 0 }
  local units = p.most - p.kind.used(p, p.st, now) -- that could be taken now
  if a.seq < o.seq then
    return
  elseif a.seq == o.seq then
    a.grant, a.held = o.grant, max(0, o.lent - o.grant)
  else
    if not p.allowed and p.cost > floor(floor(p.most / PART) / 2) then
      loans.called = now + RECALL
    end
    a.held, a.grant = o.lent, p.allowed and grant(p, now, units) or 0
    o.seq, o.grant, o.at, o.lent = a.seq, a.grant, now, o.lent + a.grant
    if a.grant > 0 then
      renew(p)
      turn(p, p.st, now)
      p.kind.add(p, p.st, now, a.grant)
      mark(p, p.st, now)
    end
    put(loans, o)
    local at = p.old or p
    at.st.dirty = true
  end
  a.recall = loans.called > now
  a.lease = how_long(p, o, now)
  local short = a.grant < a.want and units - a.grant < floor(p.most / PART) and shared(p, now)
  if short or a.grant == 0 and a.held == 0 and units <= 0 then
    a.empty = pause(p, now, units, short)
  end
end

-- lend grants units to the loan of a take, after the take was decided. If the take was only tested,
-- and soon is the cost that it will charge, those units are not lent. Lent units are charged, so
-- that they carry over a state under other numbers.
function lending.lend(p, now, soon, renew)
  if not leasable(p) or p.loan.node == 0 or not p.st.loans then
    return
  end
  if soon > 0 then
    p.kind.add(p, p.st, now, soon)
  end
  lend(p, now, renew)
  if soon > 0 then
    p.kind.sub(p, p.st, now, soon)
  end
  if p.loan.grant > 0 and not p.old then
    p.remaining, p.reset = p.kind.report(p, p.st, now)
  end
end
