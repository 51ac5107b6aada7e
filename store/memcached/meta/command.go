package meta

import (
	"strconv"
	"time"
)

// Command is one command for a server. Make it with a function of this package.
type Command struct {
	text  []byte
	lines bool // it is answered by lines up to END, as stats are
}

// maxRelative is the longest time to live, in seconds, that memcached takes as one. It takes a larger
// number as Unix time.
const maxRelative = 60 * 60 * 24 * 30

// maxExpiry is the latest Unix time that memcached can read.
const maxExpiry = 1<<31 - 1

// TTL returns a time to live as memcached expects it, rounded up to seconds. A time above 30 days is
// the Unix time at which the item expires, by the clock of this machine. 0, for a time that memcached
// cannot read, means that the item never expires.
func TTL(d time.Duration, now time.Time) int64 {
	seconds := int64((d + time.Second - 1) / time.Second)
	switch at := now.Unix() + seconds; {
	case seconds <= maxRelative:
		return max(1, seconds)
	case at <= maxExpiry:
		return at
	}
	return 0
}

// MaxKey is the longest key of memcached in bytes. A key has no blanks and no control characters.
const MaxKey = 250

// Get reads the value of a key and its version.
func Get(key string) Command { return Command{text: line("mg", key, " v c")} }

// Increase adds delta to the counter of a key, and reads the sum. If there is none it makes one that
// expires after ttl (see TTL), with the value delta.
func Increase(key string, delta uint64, ttl int64) Command {
	text := append(line("ma", key, " v N"), strconv.FormatInt(ttl, 10)...)
	text = strconv.AppendUint(append(text, " J"...), delta, 10)
	return Command{text: strconv.AppendUint(append(text, " D"...), delta, 10)}
}

// Decrease subtracts delta from the counter of a key, which stays at 0 if it is smaller, and reads the
// difference. It does not make a counter.
func Decrease(key string, delta uint64) Command {
	return Command{text: strconv.AppendUint(append(line("ma", key, " v MD"), " D"...), delta, 10)}
}

// Add adds delta to the counter of a key, which wraps at 2^64. It does not make a counter.
func Add(key string, delta uint64) Command {
	return Command{text: strconv.AppendUint(append(line("ma", key, " v"), " D"...), delta, 10)}
}

// Set writes a value under a key, with a time to live (see TTL), if the version of the key is still
// cas. A cas of 0 writes it only if there is no such key.
func Set(key string, value []byte, ttl int64, cas uint64) Command {
	text := strconv.AppendInt(line("ms", key, " "), int64(len(value)), 10)
	text = strconv.AppendInt(append(text, " c T"...), ttl, 10)
	if cas == 0 {
		text = append(text, " ME"...)
	} else {
		text = strconv.AppendUint(append(text, " C"...), cas, 10)
	}
	return Command{text: append(append(text, "\r\n"...), value...)}
}

// Delete removes a key, if cas is not 0 only while that is its version.
func Delete(key string, cas uint64) Command {
	text := line("md", key, "")
	if cas != 0 {
		text = strconv.AppendUint(append(text, " C"...), cas, 10)
	}
	return Command{text: text}
}

// Stats reads numbers of the server: those of a group such as settings, or the general ones for "".
func Stats(group string) Command {
	text := []byte("stats")
	if group != "" {
		text = append(append(text, ' '), group...)
	}
	return Command{text: text, lines: true}
}

// line returns the beginning of a command.
func line(verb, key, flags string) []byte {
	text := make([]byte, 0, len(verb)+len(key)+len(flags)+48)
	text = append(append(text, verb...), ' ')
	return append(append(text, key...), flags...)
}
