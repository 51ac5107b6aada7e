-- Writes the states that quick.lua and few.lua have decided; it is the part before both.
--
-- SETRANGE of as many digits costs a third of SET with a TTL. It is enough if the key's expiry is
-- late enough: that of a window never moves, and a bucket gets another with the first t of each
-- block of five seconds. So keys of buckets live longer than their states by spare, less up to
-- five seconds.
--
-- After an error of the first write, for memory or rights, nothing was charged; that of a later
-- write begins with "STINT-PARTLY".

local call, sub, find, format, doubles = redis.pcall, string.sub, string.find, string.format, struct.unpack
local floor, tonumber, unpack = math.floor, tonumber, unpack
local block = 5000000
local whole = #format('%d', 2 ^ 52) == 16 and '%d' or '%.0f' -- %d is faster, but too small on 32 bits

local now   -- microseconds since 1970
local spare -- milliseconds that a key lives longer than its state
local renew -- 1: set the TTL of every key that is written; 0: only if its state needs it

-- write stores the state of a key: its t, which was was, followed by its loans if it has any. value
-- is the old value: nil if the key had none, true if this script has written it already. write
-- returns false if the key has a value that MGET does not return, and the error if there is one.
local written, digits, digits_of, ttl, ttl_of, offset, offset_of = false, nil, nil, nil, nil, nil, nil
local function write(key, value, head, life, t, was, loans)
  if t ~= digits_of then -- keys that were idle have the same digits and TTL
    digits, digits_of = format(whole, t), t
  end
  if renew == 0 and was > 0 and value ~= true and (life or was % block + t - was < block) then
    local size = #head
    if size ~= offset_of then
      offset, offset_of = format('%d', size), size
    end
    local length = #value
    if length == size + #digits + (loans and #loans or 0) and call('SETRANGE', key, offset, digits) == length then
      written = true
      return true
    end -- otherwise this user may not use SETRANGE; SET returns any other error
  end
  if not life then
    local number = spare + floor((t - now + 999) / 1000)
    if number ~= ttl_of then
      ttl, ttl_of = format(whole, number), number
    end
    life = ttl
  end
  local answer
  if loans then
    answer = call('SET', key, head .. digits .. loans, 'PX', life + 2500)
  elseif value then
    answer = call('SET', key, head .. digits, 'PX', life)
  else
    answer = call('SET', key, head .. digits, 'PX', life, 'NX')
  end
  if not answer then
    return false
  elseif answer.err then
    return true, redis.error_reply((written and 'STINT-PARTLY ' or '') .. answer.err)
  end
  written = true
  return true
end

-- heal sets an expiry on a key that has none.
local function heal(key, life, t)
  if call('PTTL', key) == -1 then
    call('PEXPIRE', key, life or format(whole, spare + floor(((t > now and t - now or 0) + 999) / 1000)))
  end
end

