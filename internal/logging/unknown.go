package logging

import (
	"hash/maphash"
	"log/slog"
	"sync"
	"time"
)

// MostUnknown is how many unknown names are logged in a minute, so that clients with made-up names
// cannot flood the log or the memory.
const MostUnknown = 32

// UnknownLog logs names in requests that no rule has: one line a minute for each, up to MostUnknown
// names, and then the number of requests with other names. It is safe for concurrent use.
type UnknownLog struct {
	// Log gets the lines.
	Log *slog.Logger

	// Denied means that such requests are denied; false: they pass.
	Denied bool

	// Now returns the time; nil: the clock of this machine.
	Now func() time.Time

	mu     sync.Mutex // guards the fields below
	seed   maphash.Seed
	minute minute
	logged map[uint64]struct{}
	others uint64 // requests of this minute with further names
}

// Report logs a domain without rules or, if keys is not empty, keys that no descriptor of the
// domain has. It keeps neither text.
func (u *UnknownLog) Report(domain, keys string) {
	news, others := u.count(domain, keys)
	consequence := "requests pass without a limit"
	if u.Denied {
		consequence = "requests are denied where no other limit applies"
	}
	if others > 0 {
		u.Log.Warn("more unknown domains and keys in the minute before; "+consequence, "requests", others)
	}
	switch {
	case !news:
	case keys == "":
		u.Log.Warn("unknown domain; "+consequence, "domain", domain,
			"hint", "correct the name in the calls, or add a rule file with this domain")
	default:
		u.Log.Warn("unknown key; "+consequence, "domain", domain, "key", keys,
			"hint", "correct the key in the calls, or add a descriptor with it")
	}
}

// count reports whether to log a name now, and returns how many requests had further names in a
// minute that has ended.
func (u *UnknownLog) count(domain, keys string) (news bool, others uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.minute.begins(u.Now) {
		others = u.others
		u.others, u.seed = 0, maphash.MakeSeed()
		u.logged = make(map[uint64]struct{}, MostUnknown)
	}
	var h maphash.Hash
	h.SetSeed(u.seed)
	_, _ = h.WriteString(domain)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(keys)
	name := h.Sum64()
	if _, known := u.logged[name]; known {
		return false, others
	}
	if len(u.logged) == MostUnknown {
		u.others++
		return false, others
	}
	u.logged[name] = struct{}{}
	return true, others
}
