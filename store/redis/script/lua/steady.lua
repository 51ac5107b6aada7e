-- Decides one take of a bucket that fills steadily, or of a window. It is a part of one.lua, few.lua and quick.lua,
-- where they have the line "@steady". Before it t is the state; base is the time, and for a window 0; units is what
-- the take charges, and most what may be used afterwards. After it used is what is used at base, fits whether the take
-- passes, and later the state if it does.
local used = t > base and t - base or 0
local fits, later = used + units <= most, base + used + units
