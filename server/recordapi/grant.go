package recordapi

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"stint/internal/jsonbody"
	"stint/records"
)

// nameGrant gives a grant without an ID a new one. Repeats with the same Idempotency-Key get the same.
func (b *body) nameGrant(r *http.Request, kind records.Kind) {
	if kind != records.Grants || b.ID != "" {
		return
	}
	var random [sha256.Size]byte
	if key := r.Header.Get(idempotencyHeader); key != "" {
		random = sha256.Sum256([]byte(b.Subject + "\n" + key))
	} else {
		_, _ = rand.Read(random[:]) // never fails
	}
	b.ID = "g" + hex.EncodeToString(random[:8])
}

// checkGrant refuses a grant of a limit that can have none. It returns a warning if the grant has no effect
// now.
func (a *api) checkGrant(g *records.Grant, now time.Time) (warning string, f *jsonbody.Fault) {
	if a.grant == nil {
		return "", nil
	}
	plan, err := a.planOf(g.Subject, now)
	if err != nil {
		return "", faultOf(err, false)
	}
	warning, err = a.grant(g.Subject, g.Limit, plan)
	if err != nil {
		return "", jsonbody.Bad("limit", err.Error(), "grants need fixed windows with coordination: strict, and a store in memory or in Redis")
	}
	return warning, nil
}

// planOf returns the plan that a subject has in the records; "" for none.
func (a *api) planOf(subject string, now time.Time) (string, error) {
	key, value, _ := strings.Cut(subject, "=")
	known, err := a.file.Lookup(key, value)
	if err != nil || known.Subject == nil {
		return "", err
	}
	return known.Subject.PlanAt(now), nil
}
