package permission

import (
	"context"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
)

// stored finds out whether the storage has a certificate.
type stored struct {
	storage certmagic.Storage

	mu      sync.Mutex // guards the rest
	issuers []string   // folders of issuers
	until   time.Time  // when issuers are listed again
}

// listEvery is how long the list of issuers is used.
const listEvery = 10 * time.Second

// has reports whether the storage has a certificate for a name, or the wildcard certificate that
// Caddy would use for it.
func (s *stored) has(ctx context.Context, name string) bool {
	_, parent, _ := strings.Cut(name, ".")
	for _, issuer := range s.list(ctx) {
		for _, subject := range []string{name, "*." + parent} {
			if s.storage.Exists(ctx, certmagic.StorageKeys.SiteCert(issuer, subject)) {
				return true
			}
		}
	}
	return false
}

// list returns the issuers with certificates in the storage.
func (s *stored) list(ctx context.Context) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Before(s.until) {
		return s.issuers
	}
	folder := path.Dir(certmagic.StorageKeys.CertsPrefix("issuer"))
	keys, err := s.storage.List(ctx, folder, false)
	if err != nil { // there is no certificate yet, or the storage does not answer
		return s.issuers
	}
	s.issuers = s.issuers[:0:0]
	for _, key := range keys {
		s.issuers = append(s.issuers, path.Base(key))
	}
	s.until = now.Add(listEvery)
	return s.issuers
}
