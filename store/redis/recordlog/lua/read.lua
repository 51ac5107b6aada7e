-- Returns the head, and the entries after a number.
-- KEYS: head, log, state
-- ARGV: the number; the most entries to return; the most bytes of data, but for the last entry
--
-- Returns the number and the hash of the head ('0' and '' without one, or without the state), then the
-- entries as XRANGE returns them.

if redis.call('EXISTS', KEYS[3]) == 0 then
  return { '0', '', {} }
end
local head = redis.call('HMGET', KEYS[1], 'number', 'hash')
local entries, bytes, last = {}, 0, ARGV[1] .. '-0'
while #entries < tonumber(ARGV[2]) and bytes < tonumber(ARGV[3]) do
  local entry = redis.call('XRANGE', KEYS[2], '(' .. last, '+', 'COUNT', 1)[1]
  if not entry then
    break
  end
  entries[#entries + 1], last = entry, entry[1]
  for i = 2, #entry[2], 2 do
    bytes = bytes + #entry[2][i]
  end
end
return { head[1] or '0', head[2] or '', entries }
