-- A queue of (time, units) in order of time, stored as two lists: at and n. It is the root
-- package's Log, for states that are read and written as a whole.

local MOST_UNITS = 2 ^ 52 - 1 -- the largest total

local function new_queue()
  return { at = {}, n = {}, first = 1, last = 0, total = 0 }
end

-- tail returns the time of the newest entry, nil if there is none.
local function tail(q)
  if q.first <= q.last then
    return q.at[q.last]
  end
end

-- push adds n units at a time, which is not before the newest entry's.
local function push(q, at, n)
  n = min(n, MOST_UNITS - q.total)
  if n == 0 then
    return
  end
  q.total = q.total + n
  if q.last >= q.first and q.at[q.last] == at then
    q.n[q.last] = q.n[q.last] + n
    return
  end
  q.last = q.last + 1
  q.at[q.last], q.n[q.last] = at, n
end

-- prune drops the entries at or before old.
local function prune(q, old)
  while q.first <= q.last and q.at[q.first] <= old do
    q.total = q.total - q.n[q.first]
    q.first = q.first + 1
  end
end

-- newer returns the units of the entries after old.
local function newer(q, old)
  local left = q.total
  for i = q.first, q.last do
    if q.at[i] > old then
      break
    end
    left = left - q.n[i]
  end
  return left
end

-- remove removes up to n units from the entry of the time at, or, if newest is true, from the
-- newest entries.
local function remove(q, at, n, newest)
  for i = q.last, q.first, -1 do
    if n == 0 then
      break
    end
    if newest or q.at[i] == at then
      local less = min(n, q.n[i])
      q.n[i], q.total, n = q.n[i] - less, q.total - less, n - less
    end
  end
  local kept = new_queue()
  for i = q.first, q.last do
    push(kept, q.at[i], q.n[i])
  end
  for field, value in pairs(kept) do
    q[field] = value
  end
end

-- move adds by to the times of all entries.
local function move(q, by)
  by = max(by, -(q.at[q.first] or 0))
  for i = q.first, q.last do
    q.at[i] = q.at[i] + by
  end
end

-- copy_queue returns a queue of the same entries.
local function copy_queue(q)
  local c = new_queue()
  for i = q.first, q.last do
    push(c, q.at[i], q.n[i])
  end
  return c
end
