package app

import (
	"log/slog"
	"sync"
)

// keyLog says in the log what became of the fetches of key sets: each failure, and
// the first success as well as the first after a failure. It is safe for concurrent
// use.
type keyLog struct {
	log *slog.Logger

	mu   sync.Mutex
	good map[string]bool // addresses whose last fetch succeeded
}

func (k *keyLog) report(address string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		k.log.Warn("key set not fetched, or not all of it; the keys before stay", "address", address, "error", err,
			"hint", "until its key is known a token is no identity; it is tried again soon")
	} else if !k.good[address] {
		k.log.Info("key set fetched", "address", address)
	}
	k.good[address] = err == nil
}
