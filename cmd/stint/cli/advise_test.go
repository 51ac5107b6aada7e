package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// advises returns what stint advise prints where the service gives some advice.
func advises(t *testing.T, advice string, args ...string) string {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/advice" {
			t.Errorf("asked for %s", r.URL)
		}
		fmt.Fprintf(w, `{"at":"2026-03-02T00:00:00Z","since":"2026-03-01T00:00:00Z","advice":%s}`, advice)
	}))
	defer service.Close()
	var out strings.Builder
	if err := runAdvise(t.Context(), Streams{Out: &out}, append(args, "--admin", service.URL)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestAdvise(t *testing.T) {
	const one = `[{"rule":"api/user","text":"api/user is too tight: it denies 4 %.","yaml":"domain: api\nrest","candidate":"", "command":"stint replay --rules r.yaml access.log"}]`
	got := advises(t, one)
	want := "api/user is too tight: it denies 4 %.\n\n  Change it to:\n    domain: api\n    rest\n\n" +
		"  See what the change does to an access log:\n    stint replay --rules r.yaml access.log\n"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := advises(t, `[]`); !strings.HasPrefix(got, "No advice: ") {
		t.Errorf("%q", got)
	}
	if got := advises(t, one, "--json"); !strings.HasSuffix(got, `"advice":`+one+"}\n") {
		t.Errorf("%q", got)
	}
}
