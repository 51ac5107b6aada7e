-- Durable takes: finds out that this server lost some of them. The ledger of a partition is a hash:
--
--   server    the replication ID of the server in whose time the era began. A restart has another one,
--             and so has a replica that is promoted
--   era       when the era began, in microseconds: another server, or this one after a restart, goes on
--   seq       how many groups with durable takes were written
--   past      the eras before it, the last first: "era:seq at its end", each before a space
--   settled   claims about earlier eras are no news: the loss that they prove is noted
--   lost      when counts were lost last; 0: never
--   all       the last loss that was accepted for all rules
--   ok:RULE   the last loss that was accepted for a rule
--
-- With each take a client claims that a server answered it so many groups of an era. The append-only
-- file and the replication keep the order of writes: a server that has that many groups of the era lost
-- none of them, and one that has fewer, or does not know the era, lost takes that were answered.

local ERAS = 32 -- how many past eras are known
local UNKNOWN = 'no server'
local ledger

-- enter_ledger returns the ledger of the partition. It begins an era if another server began the last.
local function enter_ledger(key)
  if ledger then
    return ledger
  end
  local f = call('HMGET', key, 'server', 'era', 'seq', 'past', 'settled', 'lost', 'all')
  local l = {
    key = key, server = f[1] or nil, era = tonumber(f[2] or 0), seq = tonumber(f[3] or 0), past = f[4] or '',
    settled = tonumber(f[5] or 0), lost = tonumber(f[6] or 0), all = tonumber(f[7] or 0),
  }
  local here = match(call('INFO', 'replication'), 'master_replid:(%w+)') or match(call('INFO', 'server'), 'run_id:(%w+)') or UNKNOWN
  if l.server ~= here then
    if l.server then
      l.past = int(l.era) .. ':' .. int(l.seq) .. ' ' .. l.past
      local rest = match(l.past, '^' .. string.rep('[^ ]+ ', ERAS) .. '()')
      l.past = rest and string.sub(l.past, 1, rest - 1) or l.past
    end
    local time = call('TIME')
    l.server, l.era = here, max(l.era + 1, tonumber(time[1]) * 1000000 + tonumber(time[2]))
    call('HSET', key, 'server', here, 'era', int(l.era), 'seq', int(l.seq), 'past', l.past)
  end
  ledger = l
  return l
end

-- proves reports whether a claim proves a loss that is not noted yet.
local function proves(l, era, seq)
  if seq == 0 or era < l.settled then
    return false
  elseif era == l.era then
    return seq > l.seq
  end
  for began, last in string.gmatch(l.past, '(%d+):(%d+)') do
    if tonumber(began) == era then
      return seq > tonumber(last)
    end
  end
  return true
end

-- note_loss notes that counts were lost, and begins an era after those of all claims that prove it. It counts as a
-- group: whoever was told of the loss has a claim that proves the next one, also if no take was written between.
local function note_loss(l, era, now)
  l.lost = max(now, l.lost + 1, l.all + 1)
  l.era = max(l.era, era) + 1
  l.settled, l.past, l.seq = l.era, '', l.seq + 1
  call('HSET', l.key, 'era', int(l.era), 'seq', int(l.seq), 'past', '', 'settled', int(l.settled), 'lost', int(l.lost))
end

-- durable.read reads the arguments of a durable take.
function durable.read(p, number, word)
  p.durable = { era = number(), seq = number(), lost = number(), ends = number(), rule = word() }
end

-- durable.enter raises an error if the counts that a take asks for may be lost. Without the client's
-- knowledge of that loss nobody knows when the period of the take ends: it must send the take again.
function durable.enter(p, now)
  local d = p.durable
  local l = enter_ledger(d.key)
  if proves(l, d.era, d.seq) then
    note_loss(l, d.era, now)
  end
  if p.op ~= 0 or l.lost <= l.all then
    return
  elseif l.lost > tonumber(call('HMGET', l.key, 'ok:' .. d.rule)[1] or 0) then
    if d.lost ~= l.lost then
      error('STINT-LOSS ' .. int(l.lost), 0)
    elseif now < d.ends then
      error('STINT-LOST ' .. int(l.lost) .. ' ' .. d.rule, 0)
    end
  end
end

-- durable.count counts a group with durable takes that was written.
function durable.count()
  ledger.seq = ledger.seq + 1
  call('HSET', ledger.key, 'seq', int(ledger.seq))
end

-- durable.tell appends what the client claims from now on.
function durable.tell(result)
  local i = #result
  result[i + 1], result[i + 2], result[i + 3] = ledger.era, ledger.seq, ledger.lost
end
