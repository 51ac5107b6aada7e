-- Numbers of lending, as in loan.go of the root package. Times are microseconds. It is the first
-- part of lease.lua and lend.lua.

local LIFE = 2500000 -- time from an ask until its loan is written off
local SPENT = 0.8 -- the part of LIFE in which the node may spend
local PART = 4 -- at most 1/PART of a limit is lent
local LEAST = 8 -- the least number of units lent to a node that wants more
local SHARE = 2 -- the same of a bucket that is nearly used up, of which nodes share what refills
local PAUSE = 250000 -- how long a node does not ask again for a used up key, at most
local RECALL = 150000 -- how long nothing is lent while a take waits for more than is at home
local ACTIVE = 500000 -- how long a node counts as active after an ask

