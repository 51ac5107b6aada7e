-- Decides takes of busy token buckets that fill steadily, with the loans of their nodes: what the
-- node reports, the take, and what the node borrows. It does the same as decide.lua, which needs
-- four times as long, for takes that are decided each by itself. lend.lua describes loans. Node 0
-- has none; the quick scripts leave it the takes whose answer the loans of others may change.
--
-- KEYS are the key of each take, and then that of the epoch. ARGV are
--
--   numbers   doubles, little-endian
--     now       microseconds since 1970, at most 2^52; 0: the time of this server
--     spare     milliseconds that a key lives longer than its state
--     and for each take,
--     cost      units, at most 2^48; 0: a peek
--     most      the capacity of the bucket in units
--     charge    what one unit charges, in microseconds
--     and its loan: node, seq, epoch, kept, home, want, 1 if the key starts unused after a loss,
--     else 0, and the epoch that this client remembers
--
-- and then for each take
--
--   head      beginning of its state, with the bar
--
-- It returns nothing if decide.lua must begin an epoch. Otherwise it returns
-- the time, the epoch (below 0 if it follows a loss) and the process, and for each take
--
--   allowed, remaining, retry_after, reset_after, grant, held, lease, empty, recall
--
-- all as doubles. An empty text instead of these means that decide.lua must decide the take. For
-- errors see write.lua.

local match, sub, format, concat = string.match, string.sub, string.format, table.concat
local floor, max, min, doubles, pack = math.floor, math.max, math.min, struct.unpack, struct.pack
local whole = #format('%d', 2 ^ 52) == 16 and '%d' or '%.0f' -- as in write.lua
local keys, numbers = KEYS, ARGV[1]
local count = #keys - 1

local text = redis.pcall('GET', keys[#keys]) -- or a table with the error
local began, lost, run = match(type(text) == 'string' and text or '', '^(%d+) (%d) (%w+)$')
if not began or run ~= match(redis.call('INFO', 'server'), 'run_id:(%w+)') then
  return {}
end
began, lost = tonumber(began), lost == '1'

local now, spare = doubles('<dd', numbers)
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- refilled returns when nothing of a bucket is used, if no loan from first on is reported or returned;
-- or the first time at which at most room is used.
local function refilled(t, lents, ats, first, lent, charge, room)
  for i = first, #ats do
    local over = ats[i] + LIFE
    if room then
      local ready = max(now, t - room)
      if lent * charge <= room and ready < over then
        return ready
      end
    end
    t = max(t, over + lent * charge)
    lent = lent - lents[i]
  end
  return room and max(now, t - room) or t
end

local written = false

local function decide(i)
  local key, head = keys[i], ARGV[i + 1]
  local cost, most, charge, node, seq, epoch, kept, home, want, after_loss, known =
    doubles('<ddddddddddd', numbers, i * 88 - 71)
  if known > began or known > 0 and known ~= began and not lost or node > 0 and seq < 1 then
    return '' -- another epoch begins
  end

  -- Read the state.
  local full, t, called, entered, rest = most * charge, 0, 0, nil, ''
  local value = redis.pcall('GET', key)
  if value then
    if type(value) ~= 'string' or sub(value, 1, #head) ~= head then
      return ''
    end
    t = tonumber(sub(value, #head + 1))
    if not t then
      t, entered, called, rest = match(value, '^(%d+)~(%d+) (%d+)(.*)$', #head + 1)
      if not t then
        return ''
      end
      t, entered, called = tonumber(t), tonumber(entered), tonumber(called)
    end
  end
  if not (t >= 0 and t <= now + full) or called > now + RECALL or entered ~= began and lost and after_loss == 0
    or node == 0 and not entered then
    return ''
  end
  local name, n, lent = format(whole, node), 0, 0
  local loans, names, seqs, lents, grants, ats = {}, {}, {}, {}, {}, {}
  for loan, a, b, c, d, e in string.gmatch(rest, '( (%d+) (%d+) (%d+) (%d+) (%d+))') do
    c, e = tonumber(c), tonumber(e)
    if e > now then
      return ''
    elseif c > 0 or e + ACTIVE > now then
      n = n + 1
      loans[n], names[n], seqs[n], lents[n], grants[n], ats[n] = loan, a, b, c, d, e
      lent = lent + c
    end
  end

  -- Write off old loans.
  local first = 1
  while first <= n and ats[first] + LIFE <= now do
    t = max(t, ats[first] + LIFE + lent * charge)
    lent = lent - lents[first]
    first = first + 1
  end
  t = max(t, now + lent * charge)

  -- Book the report.
  local own, last, granted = nil, 0, 0
  for k = node > 0 and first or n + 1, n do
    if names[k] == name then
      own, last, granted = k, tonumber(seqs[k]), tonumber(grants[k])
    end
  end
  local held = own and lents[own] or 0
  if own and seq > last and (epoch == began or after_loss == 1) then
    kept = min(kept, held)
    t = max(0, t - min(home, held - kept) * charge)
    lent, held = lent - held + kept, kept
    lents[own] = kept
  end

  -- Decide the take.
  local used = max(0, t - now)
  local allowed, retry = cost == 0 or cost <= most and used + cost * charge <= full, 0
  if allowed and cost > 0 then
    used = used + cost * charge
    t = now + used
  elseif not allowed then
    retry = cost > most and -1 or refilled(t, lents, ats, first, lent, charge, full - cost * charge) - now
  end
  local units = most - floor((used + charge - 1) / charge)

  -- Lend.
  local grant, lease, empty, recall = 0, 0, 0, 0
  if node == 0 or seq < last then
    held = 0
  else
    local quarter, pauses = floor(most / PART), min(PAUSE, floor(full / PART))
    local others, may = 1, quarter - lent
    for k = first, n do
      if names[k] == '0' then
        may = may + lents[k]
      elseif k ~= own and ats[k] + ACTIVE > now then
        others = others + 1
      end
    end
    local shared = called <= now and SHARE * others * charge <= pauses
    if seq == last then
      grant, held = granted, max(0, held - granted)
    else
      if not allowed and cost > floor(quarter / 2) then
        called, shared = now + RECALL, false
      end
      if allowed and called <= now then
        local part = floor(units / others)
        grant = min(want, floor(may / 2), floor(part / 2))
        if grant < min(want, LEAST) then
          grant = min(want, may, part)
          grant = grant >= min(want, SHARE) and shared and grant or 0
        end
      end
      lent = lent + grant
      if grant > 0 then
        used = used + grant * charge
        t = now + used
      end
      if own then
        for _, list in ipairs({ loans, names, lents, ats }) do
          table.remove(list, own)
        end
        n = n - 1
      end
      n = n + 1
      own, names[n], lents[n], ats[n] = n, name, held + grant, now
    end
    recall = called > now and 1 or 0
    lease = floor(max(0, ats[own] + LIFE - now) / 1000) * 1000 * SPENT
    if shared and grant < want and units - grant < quarter then
      empty = pauses
    end
    if units <= 0 and (empty > 0 or grant == 0 and held == 0) then
      empty = max(empty, refilled(t, lents, ats, first, lent, charge, full - charge) - now)
    end
  end
  if own then
    loans[own] = concat({ '', name, format(whole, max(seq, last)), format(whole, lents[own]), format(whole, seq > last and grant or granted), format(whole, ats[own]) }, ' ')
  end

  -- Write the state.
  local answer = pack('<ddddddddd', allowed and 1 or 0, max(0, most - floor((used + charge - 1) / charge)),
    retry, max(0, t - now), grant, held, lease, empty, recall)
  local ends = max(n >= first and ats[n] + LIFE or 0, refilled(t, lents, ats, first, lent, charge))
  local life = format(whole, spare + floor((max(0, ends - now) + 999) / 1000))
  if node == 0 and not (allowed and cost > 0) then
    if redis.pcall('PTTL', key) == -1 then
      redis.pcall('PEXPIRE', key, life)
    end
    return answer
  end
  local text = head .. format(whole, t)
  if n >= first or called > now or lost and after_loss == 0 then -- otherwise the state counts the same without, see loans.lua
    text = concat({ text, '~', format(whole, began), ' ', format(whole, called), concat(loans, '', first, n) })
  end
  local problem = redis.pcall('SET', key, text, 'PX', life)
  written = written or not problem.err
  return problem.err and problem or answer
end

local answers, skipped = { pack('<ddd', now, lost and -began or began, tonumber(match(tostring(redis), '0x(%x+)$') or '0', 16)) }, {}
for i = 1, count do
  local answer = skipped[keys[i]] and '' or decide(i)
  if answer == '' then
    skipped[keys[i]] = true -- so that takes of a key are decided in their order
  elseif type(answer) == 'table' then
    return redis.error_reply((written and 'STINT-PARTLY ' or '') .. answer.err)
  end
  answers[i + 1] = answer
end
return answers
