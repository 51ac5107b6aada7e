package request

import (
	"errors"
	"net/netip"
	"testing"

	"stint/internal/testkit/samples"
	"stint/limiter"
	"stint/records"
	"stint/store/memory"
)

// from is a request of an address.
type from struct {
	request
	addr string
}

func (f from) RemoteAddress() netip.Addr { return netip.MustParseAddr(f.addr) }

// The banned are denied wherever they ask: also in a domain without rules, where no descriptor is
// made, and where their request is invalid.
func TestBannedAnywhere(t *testing.T) {
	const costly = "domain: api\ndescriptors: [{key: path, rate_limit: {requests: 1, per: 1h}}]\nhttp: {rate_limits: [{actions: [{path: {}}], cost: {header: x-cost}}]}\n"
	l := limiter.New(memory.New(memory.Options{}), table(t, costly), limiter.Options{Records: samples.Records(t, records.Ban{Network: netip.MustParsePrefix("192.0.2.0/24")})})
	for _, tt := range []struct {
		domain, path, cost, addr string
		want                     Outcome
	}{
		{"api", "/", "", "192.0.2.1", Decided},
		{"api", "/", "bad", "192.0.2.1", Decided},
		{"other", "/", "", "192.0.2.1", Decided},
		{"api", "/", "bad", "198.51.100.1", Invalid},
		{"other", "/", "", "198.51.100.1", NoLimit},
	} {
		b := ByRules{Limiter: l, Domain: tt.domain}
		var s Scratch
		what, _ := b.Decide(t.Context(), from{request{tt.path, tt.cost}, tt.addr}, false, &s)
		if what != tt.want || what == Decided && s.Verdict.Reason() != limiter.ReasonBanned {
			t.Errorf("%+v: outcome %v, %q", tt, what, s.Verdict.Reason())
		}
	}
}

// The records are asked once for each key of a request.
func TestIdentifier(t *testing.T) {
	asked := 0
	i := NewIdentifier(func(key string) (string, string, error) {
		asked++
		if key == "broken" {
			return "", "", errors.New("disk")
		}
		return "user=" + key, "pro", nil
	})
	for range 2 {
		for _, key := range []string{"a", "a", "broken", "broken", "b"} {
			subject, plan, err := i.Identify(key)
			if want := "user=" + key; key != "broken" && (subject != want || plan != "pro" || err != nil) || key == "broken" && err == nil {
				t.Errorf("%s: %q, %q, %v", key, subject, plan, err)
			}
		}
	}
	if asked != 6 {
		t.Errorf("the records were asked %d times, want 6", asked)
	}
	none := NewIdentifier(nil)
	if subject, _, err := none.Identify("a"); subject != "" || err == nil {
		t.Errorf("without records: %q, %v", subject, err)
	}
}
