-- Publishes records whose time has come, for workers of one's own. Returns the results that they
-- reported, at most 100.

redis.pcall('XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM')
publishDue()
return redis.call('XRANGE', prefix .. 'results', '-', '+', 'COUNT', 100)
