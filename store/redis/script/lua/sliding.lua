-- sliding_window. The state is a hash: under "" its head and the time up to which it
-- was pruned, and under the number of each block the units that were taken in it.
--
--   ""          1k 100 60000000 10|1767225600000000      requests, per in microseconds, blocks
--   294537600   7
--
-- If the state was carried over from other numbers and its newest block has more than requests,
-- the rest counts in the block one window later, and so on; then the head ends with the time of
-- its write: "1k 100 60000000 10|1767225600000000 @1767225600000000".
--
-- letters: k begins unused, m used up (start: used_up). With blocks of length b = per/blocks,
-- at offset o into block i,
--
--   used = floor(count[i-blocks] * (b-o)/b) + count[i-blocks+1] + ... + count[i]
--
-- and a take of n units passes if used + n <= requests.

local function blocks_steady(l, st, now)
  local t = max(now, st.t)
  local last = tail(st.log)
  if last then
    t = max(t, last * l.block)
  end
  return t
end

-- block_at returns the block of the steady time, and the offset into it.
local function block_at(l, st, now)
  local t = blocks_steady(l, st, now)
  local i = floor(t / l.block)
  return i, t - i * l.block
end

-- unseen reports whether block i is the first in which anything is taken, as far as the state
-- shows.
local function unseen(l, st, i)
  if l.letter ~= 'm' or i < l.blocks then
    return false
  end
  local last = tail(st.log)
  return not last or last + l.kept <= i
end

-- share_before returns the units of the nth oldest block before a key's first take.
local function share_before(l, n)
  local units = floor(l.most / l.blocks)
  if n < l.blocks - l.most % l.blocks then
    return units
  end
  return units + 1
end

-- write_before adds to a queue the units that count as taken before block i.
local function write_before(l, q, i)
  prune(q, i)
  for n = 0, l.blocks - 1 do
    push(q, i - l.blocks + n, share_before(l, n))
  end
end

local function blocks_tidy(l, st, now)
  local q = st.log
  if q.first > q.last then
    return
  end
  local t = blocks_steady(l, st, now)
  local old = floor(t / l.block) - l.kept
  if q.at[q.first] <= old then
    st.t, st.dirty = max(st.t, t), true
    prune(q, old)
  end
end

-- offset_below returns the least offset o into a block from which n*(b-o)/b < room.
local function offset_below(l, n, room)
  if room > n then
    return 0
  end
  local left, rest = muldiv(l.block, room, n)
  if rest == 0 then
    left = left - 1
  end
  return l.block - left
end

-- weighed returns floor(n*part/block).
local function weighed(l, n, part)
  return (muldiv(n, part, l.block))
end

local function blocks_used(l, st, now)
  local i, o = block_at(l, st, now)
  if unseen(l, st, i) then
    local oldest = share_before(l, 0)
    return l.most - (oldest - weighed(l, oldest, l.block - o))
  end
  local oldest = i - l.blocks
  local whole = newer(st.log, oldest)
  return whole + weighed(l, newer(st.log, oldest - 1) - whole, l.block - o)
end

-- blocks_wait returns the time until at most wanted units count. The estimate only falls while
-- nobody takes, so it is enough to try each entry in turn as the weighted one.
local function blocks_wait(l, st, now, wanted)
  local room = wanted + 1 -- the estimate must be below this
  local i, o = block_at(l, st, now)
  local q = st.log
  if st.written then
    local units, at = q.n[q.last], tail(q)
    local k = spans(l, units - room + 1) -- windows until the rest is below room
    local rest = room - max(0, units - k * l.most)
    return (at + k * l.blocks) * l.block + offset_below(l, min(l.most, units - (k - 1) * l.most), rest) - now
  end
  if unseen(l, st, i) then
    q = new_queue()
    write_before(l, q, i)
  end
  local whole, ready = q.total, now
  for e = q.first, q.last do
    whole = whole - q.n[e]
    local j = q.at[e] + l.blocks -- the block in which the entry is weighted
    if j >= i and whole < room then
      ready = j * l.block + offset_below(l, q.n[e], room - whole)
      if j == i then
        ready = max(ready, i * l.block + o)
      end
      break
    end
  end
  return max(0, ready - now)
end

-- blocks_roll leaves l.most units in the newest block once its window is over, puts the rest one
-- window later, and so on.
local function blocks_roll(l, st, now)
  local q = st.log
  local units, at = q.n[q.last], tail(q)
  local i = block_at(l, st, now)
  local k = min(floor((i - at) / l.blocks), spans(l, units) - 1)
  if k > 0 then
    st.log = new_queue()
    push(st.log, at + (k - 1) * l.blocks, l.most) -- it is weighted in one more block
    push(st.log, at + k * l.blocks, units - k * l.most)
  end
  if st.log.n[st.log.last] <= l.most then
    plain(l, st, now)
  end
end

kinds.k = {
  numbers = function(l, words)
    local requests, per, blocks = match(words, '^ (%d+) (%d+) (%d+)$')
    l.most, l.per, l.blocks = tonumber(requests), tonumber(per), tonumber(blocks)
    l.block = l.per / l.blocks
    l.kept = l.blocks + 1
    if l.letter == 'm' then
      l.kept = l.blocks + 2
    end
  end,
  blank = function()
    return { t = 0, log = new_queue(), before = {} }
  end,
  load = function(key)
    local list = call('HGETALL', key)
    local st = kinds.k.blank()
    local head, rest
    local blocks, sorted = {}, true
    for i = 1, #list, 2 do
      if list[i] == '' then
        head, rest = parse(list[i + 1])
        rest, st.written = read_written(rest)
        st.t = tonumber(rest)
      else
        local at = tonumber(list[i])
        st.before[at] = tonumber(list[i + 1])
        sorted = sorted and (#blocks == 0 or blocks[#blocks] < at)
        blocks[#blocks + 1] = at
      end
    end
    if #list > 0 and not head then
      error('STINT-STATE is not a state of Stint: a hash without a head', 0)
    end
    if not sorted then -- small hashes keep their order in Redis
      table.sort(blocks)
    end
    for i = 1, #blocks do
      push(st.log, blocks[i], st.before[blocks[i]])
    end
    return st, head
  end,
  save = function(key, st, l, ttl)
    local q = st.log
    local fields = { '', l.head .. '|' .. int(st.t) .. written_text(st) }
    local kept = {}
    for i = q.first, q.last do
      kept[q.at[i]] = true
      if st.before[q.at[i]] ~= q.n[i] then
        fields[#fields + 1], fields[#fields + 2] = int(q.at[i]), int(q.n[i])
      end
    end
    for i = 1, #fields, 1000 do
      call('HSET', key, unpack(fields, i, min(i + 999, #fields)))
    end
    for at in pairs(st.before) do
      if not kept[at] then
        call('HDEL', key, int(at))
      end
    end
    call('PEXPIRE', key, ttl)
  end,
  untouched = function(st)
    return st.t == 0 and st.log.total == 0
  end,
  used = blocks_used,
  fits = function(l, st, now, cost)
    return blocks_used(l, st, now) + cost <= l.most
  end,
  report = function(l, st, now)
    local left = max(0, l.most - blocks_used(l, st, now))
    return left, max(0, kinds.k.expiry(l, st) - now)
  end,
  retry = function(l, st, now, cost)
    return blocks_wait(l, st, now, l.most - cost)
  end,
  wait = blocks_wait,
  deferred = function(st)
    return st.log.n[st.log.last] or 0
  end,
  less = function(l, st)
    local q = st.log
    local over = q.n[q.last] - defer_most(l, q.at[q.last] * l.block)
    if over > 0 then
      q.n[q.last], q.total = q.n[q.last] - over, q.total - over
    end
  end,
  dated = function(l, st)
    return max(st.t, (tail(st.log) or 0) * l.block)
  end,
  gather = function(l, st, from, now)
    local used = 0
    if kinds.k.expiry(l, st) > from then
      used = min(blocks_used(l, st, from) + 1, l.most, st.log.total) -- one more, which may partly have left
    end
    st.t, st.log = 0, new_queue()
    push(st.log, floor(now / l.block), used)
  end,
  shift = function(l, st, from, to)
    local blocks = floor(to / l.block) - floor(from / l.block)
    st.t = max(0, st.t + blocks * l.block)
    st.log = copy_queue(st.log)
    move(st.log, blocks)
  end,
  roll = blocks_roll,
  -- A state with an entry counts nothing before it, even if the key begins used up.
  blend = function(p, st, now, units)
    push(st.log, floor(now / p.block), units)
  end,
  copy = function(st)
    return { t = st.t, written = st.written, log = copy_queue(st.log), before = st.before }
  end,
  add = function(l, st, now, cost)
    if st.written then
      push(st.log, tail(st.log), cost)
      return
    end
    blocks_tidy(l, st, now)
    local i = block_at(l, st, now)
    if unseen(l, st, i) then
      write_before(l, st.log, i)
    end
    push(st.log, i, cost)
  end,
  sub = function(l, st, _, cost, undo)
    local block = undo and floor(undo.reset / l.block) - l.kept
    remove(st.log, block, cost, not undo)
  end,
  expiry = function(l, st)
    local last = tail(st.log)
    if not last then
      return 0
    end
    if st.written then
      last = last + (spans(l, st.log.n[st.log.last]) - 1) * l.blocks
    end
    return (last + l.kept) * l.block
  end,
  tidy = blocks_tidy,
  -- opens reports whether a denied take begins a key's window: no later first take of that cost
  -- could pass, as each would find the window before it used up.
  opens = function(l, st, now, cost)
    if l.letter ~= 'm' or cost > l.most then
      return false
    end
    local i, oldest = block_at(l, st, now), share_before(l, 0)
    return unseen(l, st, i) and cost > oldest - weighed(l, oldest, 1)
  end,
}
kinds.m = kinds.k
