package limits_test

import (
	"net/http"
	"regexp"
	"strconv"
	"testing"

	"stint/internal/testkit"
)

// trips returns how many decisions a Redis made since the last call.
func trips(t *testing.T, server *testkit.RedisServer) (n int) {
	t.Helper()
	for _, calls := range regexp.MustCompile(`cmdstat_(?:evalsha|eval|fcall)(?:_ro)?:calls=(\d+)`).FindAllStringSubmatch(server.Do("INFO", "commandstats"), -1) {
		one, err := strconv.Atoi(calls[1])
		testkit.Must(t, err)
		n += one
	}
	server.Do("CONFIG", "RESETSTAT")
	return n
}

// TestTrips is A-3: the rules of a directive are decided together in one round trip to the store, and a denial by
// one of them charges none, wherever it stands.
func TestTrips(t *testing.T) {
	const descriptors = `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {name: address, requests: 100, per: 2h}
  - key: path
    rate_limit: {name: first, requests: 1, per: 2h}
  - key: host
    rate_limit: {name: host, requests: 100, per: 2h, algorithm: token_bucket}
  - key: user
    rate_limit: {name: user, requests: 3, per: 2h, algorithm: sliding_log}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{path: {}}]
    - actions: [{host: {}}]
    - actions: [{identity: {}}]
`
	const (
		hostEntries = `{"key": "host", "value": "127.0.0.1"}`
		userEntries = `{"key": "user", "value": "ann"}`
	)
	for _, tt := range []struct {
		name, early string
		each        int // decisions of a request that passes
		undo        int // calls after a denial by the second directive, which gives back what the first took
	}{{"one directive", "", 1, 0}, {"two directives", "stint_early api", 2, 1}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := testkit.StartRedis(t)
			g := start(t, `
{
	GLOBAL
	stint {
		rules DIR/rules.yaml
		store `+server.URL()+`
		store_timeout 10s
		remember_refusals false
	}
}
http://ADDRESS {
	`+tt.early+`
	basic_auth * {
		ann `+hash+`
		bob `+hash+`
	}
	stint api
	respond ok
}
`, map[string]string{"rules.yaml": descriptors})
			used := func() [3]int64 {
				return [3]int64{g.used("address", home), g.used("host", hostEntries), g.used("user", userEntries)}
			}
			for i := range 4 { // the last one is denied: all scripts are loaded then
				g.get("/"+strconv.Itoa(i), ":user", "bob:secret")
			}
			trips(t, server)
			for _, step := range []struct {
				path         string
				status, want int
				used         [3]int64
			}{
				{"/a", http.StatusOK, tt.each, [3]int64{4, 4, 1}},
				{"/a", http.StatusTooManyRequests, 1, [3]int64{4, 4, 1}}, // the second of the rules
				{"/b", http.StatusOK, tt.each, [3]int64{5, 5, 2}},
				{"/c", http.StatusOK, tt.each, [3]int64{6, 6, 3}},
				{"/d", http.StatusTooManyRequests, tt.each + tt.undo, [3]int64{6, 6, 3}}, // the last of the rules
			} {
				a := g.get(step.path, ":user", "ann:secret")
				if n := trips(t, server); a.status != step.status || n != step.want {
					t.Errorf("%s: %d in %d round trips, want %d in %d", step.path, a.status, n, step.status, step.want)
				}
				if got := used(); got != step.used {
					t.Errorf("%s: %v units used, want %v", step.path, got, step.used)
				}
				trips(t, server) // those of inspect
			}
		})
	}
}
