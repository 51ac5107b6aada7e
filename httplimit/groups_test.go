package httplimit_test

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	"stint/httplimit"
)

// A user has five requests, a team ten and an organization fifty: each refusal names the level, and
// a denied request is charged to no level.
func TestGroups(t *testing.T) {
	file, err := os.ReadFile("../examples/rules/groups.yaml")
	if err != nil {
		t.Fatal(err)
	}
	time := clock{1767225600_000_000}
	h := httplimit.New(newLimiter(t, time.store(), string(file)), "groups", httplimit.Options{})(ok)
	ask := func(n int, organisation, team, user string) (passed int, denied string) {
		for range n {
			w := get(h, "192.0.2.1:1", "/", "X-Organisation", organisation, "X-Team", team, "X-User", user)
			if w.Code == http.StatusOK {
				passed++
			} else {
				denied = field(w, "RateLimit")
			}
		}
		return passed, denied
	}
	for _, tt := range []struct {
		organisation, team, user string
		passed                   int
		denied                   string
	}{
		{"acme", "red", "ann", 5, `"user";r=0;t=60, "organisation";r=45, "team";r=5`},
		{"acme", "red", "bob", 5, `"team";r=0;t=60, "organisation";r=40, "user";r=0;t=60`},
		{"acme", "red", "cid", 0, `"team";r=0;t=60, "organisation";r=40, "user";r=5`},
		{"acme", "blue", "ann", 5, `"user";r=0;t=60, "organisation";r=35, "team";r=5`}, // another team's ann
		{"umbrella", "red", "ann", 5, `"user";r=0;t=60, "organisation";r=45, "team";r=5`},
	} {
		if passed, denied := ask(50, tt.organisation, tt.team, tt.user); passed != tt.passed || denied != tt.denied {
			t.Errorf("%+v: %d passed, the last was denied by %s", tt, passed, denied)
		}
	}
	all := 15
	for i := range 20 {
		passed, _ := ask(5, "acme", fmt.Sprint("team", i), "dan")
		all += passed
	}
	if _, denied := ask(1, "acme", "team99", "eve"); all != 50 || denied != `"organisation";r=0;t=60, "team";r=10, "user";r=5` {
		t.Errorf("%d of the organisation passed, the last was denied by %s", all, denied)
	}
}
