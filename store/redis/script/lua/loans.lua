-- Reads the loans of a state for scripts that decide takes of nodes that hold none of them. It is
-- a part of these, where they have the line "@loans"; lend.lua describes loans.

-- lent_units returns how many units are lent, given the end of a state, from its tilde, and when
-- the first of them are written off: never if none are lent. It returns nil if decide.lua must
-- update the loans first: a loan is to be written off, or was made by a clock that was ahead, or they
-- are of another epoch than epoch, the beginning of its text; nil: any.
local function lent_units(loans, now, epoch)
  local start = string.match(loans, '^~%d+ %d+()')
  if not start or epoch and string.sub(loans, 2, #epoch + 1) ~= epoch then
    return nil
  end
  local sum, first = 0, nil
  for lent, at in string.gmatch(string.sub(loans, start), ' %d+ %d+ (%d+) %d+ (%d+)') do
    at = at + 2500000
    if at <= now or at > now + 7500000 then
      return nil
    end
    sum, first = sum + lent, first or at
  end
  return sum, sum > 0 and first or math.huge
end

-- not_lent reports whether a state needs no loans any more: the list is empty, nodes may borrow
-- again, and the epoch does not follow a loss, so a state without loans counts the same.
local function not_lent(loans, now, lost)
  local called = string.match(loans, '^~%d+ (%d+)$')
  return called and tonumber(called) <= now and not lost
end
