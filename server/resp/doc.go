// Package resp serves the Redis protocol, RESP2 and RESP3, so that every Redis client is a client of
// Stint. It has the command CL.THROTTLE of redis-cell, and the commands STINT.CHECK, STINT.MCHECK,
// STINT.PEEK, STINT.INSPECT and STINT.RESET for rules by name.
//
// The protocol: https://redis.io/docs/latest/develop/reference/protocol-spec/. The contract of
// CL.THROTTLE: https://github.com/brandur/redis-cell.
package resp
