package logging

import (
	"hash/maphash"
	"log/slog"
	"sync"
	"time"
)

// MostUnknown is how many unknown names are logged in a minute: whoever sends made-up names
// must flood neither the log nor the memory.
const MostUnknown = 32

// UnknownLog logs names of requests that no rules have: one line a minute for each, up to
// MostUnknown names, and then how many requests had others. It is safe for concurrent use.
type UnknownLog struct {
	// Log is where to.
	Log *slog.Logger

	// Denied says that such requests are denied, and do not pass.
	Denied bool

	// Now returns the time; nil: the clock of this machine.
	Now func() time.Time

	mu     sync.Mutex // guards what follows
	seed   maphash.Seed
	minute minute
	logged map[uint64]struct{}
	others uint64 // requests of this minute with names beyond those
}

// Tell logs a domain that no rules have, or, where keys is not empty, keys that no descriptor
// of the domain has. It keeps neither text.
func (u *UnknownLog) Tell(domain, keys string) {
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

// count says whether a name is to be logged now, and how many requests had other names in a
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
