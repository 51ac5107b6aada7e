-- The first part of the quick scripts (one.lua, few.lua, quick.lua): how they know that the server
-- lost nothing. These scripts need not know it.
--
-- For takes of keys that may be lent, if a loan that was lost would change the answer, a node makes
-- scripts of its own for each process of a server and each epoch, see lend.lua. Constants cost less
-- than arguments, and a server that starts again has no scripts.

local process -- the address of its interpreter, as tostring(redis) gives it; nil: any process will do
local mark    -- the value of the key of the process, see lend.lua: an emptied server has none
local epoch   -- the epoch and a space, as loans begin with it; nil: any epoch will do
local lost    -- whether the epoch follows a loss
