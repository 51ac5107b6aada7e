-- Reads the loans of a state for scripts that decide takes of nodes that hold none of them. It is
-- a part of these, where they have the line "@loans"; lend.lua describes loans.

-- lent_units returns how many units are lent, given the end of a state, from its tilde; when the
-- first of them are written off: never if none are lent; and the loans that are left: '' if none is,
-- nodes may borrow again, and the epoch does not follow a loss, so a state without loans counts the same.
-- It returns nil if decide.lua must update the loans first: units are to be written off, or a loan was
-- made by a clock that was ahead, or they are of another epoch than epoch, the beginning of its text;
-- nil: any.
local function lent_units(loans, now, epoch, lost)
  local called, start = string.match(loans, '^~%d+ (%d+)()')
  if not called or epoch and string.find(loans, epoch, 2, true) ~= 2 then
    return nil
  end
  local sum, first = 0, nil
  local lent, at, rest = string.match(loans, '^ %d+ %d+ (%d+) %d+ (%d+)()', start)
  while lent do
    at = at + (lent == '0' and 500000 or 2500000)
    if at > now + 7500000 or at <= now and lent ~= '0' then
      return nil
    elseif at > now then
      sum, first, start = sum + lent, first or at, rest
    else
      loans = string.sub(loans, 1, start - 1) .. string.sub(loans, rest)
    end
    lent, at, rest = string.match(loans, '^ %d+ %d+ (%d+) %d+ (%d+)()', start)
  end
  if not first and not lost and tonumber(called) <= now then
    loans = ''
  end
  return sum, sum > 0 and first or math.huge, loans
end
