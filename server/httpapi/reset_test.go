package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"stint/internal/jsonbody"
	"stint/rule"
)

// Each limit of a reset is announced before it is reset, with its state. A fault refuses the reset.
func TestResetIsAnnounced(t *testing.T) {
	l, _ := newLimiter(t)
	var announced []string
	refuse := ""
	admin := NewAdmin(l, AdminOptions{OnReset: func(r *http.Request, name string, key []rule.Entry, before any) *jsonbody.Fault {
		text, err := json.Marshal(before)
		if err != nil {
			t.Error(err)
		}
		announced = append(announced, fmt.Sprint(name, key, strings.Contains(string(text), `"used":2`), r.Header.Get("X-Stint-Why")))
		if refuse == key[0].Value {
			return &jsonbody.Fault{Status: http.StatusServiceUnavailable, Code: jsonbody.Unavailable, Problem: "no room"}
		}
		return nil
	}})
	traffic := NewTraffic(l, TrafficOptions{}).Handler()
	const take = `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"42"}],"cost":2},{"entries":[{"key":"user","value":"43"}],"cost":2}]}`
	used := func() string {
		_, answer, _ := call(t, admin, "POST", "/v1/inspect", take)
		return fmt.Sprint(strings.Count(answer, `"used":2`), strings.Count(answer, `"used":0`))
	}
	call(t, traffic, "POST", CheckPath, take)
	refuse = "43"
	status, answer, _ := call(t, admin, "POST", "/v1/reset", take)
	if status != 503 || !strings.Contains(answer, `descriptors[1]: no room; of the others only those before it were reset`) || used() != "1 1" {
		t.Errorf("%d %s, and %s are used", status, answer, used())
	}
	announced, refuse = nil, ""
	if status, answer, _ := call(t, admin, "POST", "/v1/reset", take); status != 200 || used() != "0 2" {
		t.Errorf("%d %s, and %s are used", status, answer, used())
	}
	if want := "[api/user[{user 42}] false api/user[{user 43}] true]"; fmt.Sprint(announced) != want {
		t.Errorf("announced %v, want %s", announced, want)
	}
}
