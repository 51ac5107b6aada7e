package factsapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/limiter"
)

// withGrants are plans whose subjects have grants.
type withGrants struct {
	plans
	grants []Granted
}

// client is a subject with a plan and grants.
type client struct {
	plan
	subject string
	of      *withGrants
}

func (w *withGrants) Lookup(key, value string) limiter.Known {
	return client{w.plans[key+"="+value], key + "=" + value, w}
}

func (k client) AppendGrants(to []limiter.Grant, limit string, now time.Time) []limiter.Grant {
	for _, g := range k.of.grants {
		if g.Subject == k.subject && g.Limit == limit && stint.At(now) < g.Until {
			to = append(to, g.Grant)
		}
	}
	return to
}

// each is UsageOptions.Grants.
func (w *withGrants) each(subject string, yield func(Granted) bool) error {
	for _, g := range w.grants {
		if (subject == "" || g.Subject == subject) && !yield(g) {
			break
		}
	}
	return nil
}

// granted returns a service with clients that used some of their grants.
func granted(t *testing.T) *service {
	t.Helper()
	end := stint.At(time.Date(2096, 4, 1, 0, 0, 0, 0, time.UTC))
	records := &withGrants{plans: plans{"user=42": {"pro", 15}, "user=45": {"house", 1}}}
	for _, subject := range []string{"user=42", "user=43", "user=45", "org=1"} {
		records.grants = append(records.grants,
			Granted{Subject: subject, Limit: "api", Grant: limiter.Grant{ID: "gift", Units: 5, Priority: 50, Until: end}},
			Granted{Subject: subject, Limit: "api", Grant: limiter.Grant{ID: "=order", Units: 1000, Priority: 200, Until: end}},
			Granted{Subject: subject, Limit: "none", Grant: limiter.Grant{ID: "idle", Units: 7, Priority: 200, Until: end}})
	}
	records.grants = append(records.grants, Granted{Subject: "user=43", Limit: "api", Grant: limiter.Grant{
		ID: "later", Units: 9, Priority: 255, From: end - stint.Instant(time.Hour.Microseconds()), Until: end,
	}})
	s := serviceOf(t, strings.NewReplacer("per: 1d", "per: 1d, rollover: 4", ", usage: 13, notify: [80%]", "").Replace(planRules), records)
	s.options.Grants, s.options.Plan = records.each, func(subject string) string { return records.plans[subject].name }
	s.take(107, "user", "42")
	s.take(8, "user", "43")
	return s
}

// An operator sees what is left of grants: of all, of a subject, of a rule. A grant of a limit that no rule takes, that
// the plan lacks or does not limit has no row.
func TestGrants(t *testing.T) {
	s := granted(t)
	h := NewUsage(s.options)
	const gift42, order42 = "user=42 gift 5 of 5", "user=42 =order 2 of 1000"
	const all43 = "user=43 gift 5 of 5; user=43 =order 0 of 1000; user=43 later 0 of 9 from 2096-03-31T23:00:00Z"
	for path, want := range map[string]string{
		"/v1/usage/grants":                              gift42 + "; " + order42 + "; " + all43,
		"/v1/usage/grants?subject=user%3D42":            gift42 + "; " + order42,
		"/v1/usage/grants?subject=user%3D43&rule=calls": "",
		"/v1/usage/grants?rule=calls%231":               gift42 + "; " + order42 + "; " + all43,
		"/v1/usage/grants?rule=none":                    "",
		"/v1/usage/grants?from=2096-04-02":              "",
		"/v1/usage/grants?subject=user%3D44":            "",
		"/v1/usage/grants?subject=user%3D45":            "",
		"/v1/usage/grants?subject=org%3D1":              "",
	} {
		status, body, _ := s.ask(h, path)
		var answer grantsAnswer
		if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK || answer.Grants == nil {
			t.Errorf("%s: %d %s, %v", path, status, body, err)
			continue
		}
		var got []string
		for _, g := range answer.Grants {
			text := g.Subject + " " + g.Grant + " " + cellOf(uint64(g.Used)) + " of " + cellOf(uint64(g.Units))
			if !g.From.IsZero() {
				text += " from " + g.From.Format(time.RFC3339)
			}
			if got = append(got, text); g.Left != g.Units-g.Used || g.Rule != "calls#1" || g.Domain != "api" || g.Limit != "api" {
				t.Errorf("%s: %+v", path, g)
			}
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("%s: %s, want %s", path, text, want)
		}
	}
	_, csv, _ := s.ask(h, "/v1/usage/grants?subject=user%3D42&format=csv")
	if want := strings.Join(grantHead, ",") + "\napi,calls#1,api,user=42,gift,5,5,0,50,,2096-04-01T00:00:00Z\napi,calls#1,api,user=42,'=order,1000,2,998,200,,2096-04-01T00:00:00Z\n"; csv != want {
		t.Errorf("%q, want %q", csv, want)
	}
	s.options.Grants = nil
	if _, body, _ := s.ask(NewUsage(s.options), "/v1/usage/grants"); body != `{"grants":[]}`+"\n" {
		t.Errorf("without records: %s", body)
	}
	s = granted(t)
	s.options.Store = broken{}
	for _, path := range []string{"/v1/usage/grants", "/v1/usage/grants?subject=user%3D42"} {
		if status, body, _ := s.ask(NewUsage(s.options), path); status != 503 || strings.Contains(body, "secret") {
			t.Errorf("%s of a broken store: %d %s", path, status, body)
		}
	}
}

// A customer sees her grants and her rollover.
func TestMeGrants(t *testing.T) {
	s := granted(t)
	me := func() meLimit {
		t.Helper()
		_, body, _ := s.ask(s.meOf(), MePath, "X-Api-Key", "key43")
		var answer meAnswer
		if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Limits) != 1 {
			t.Fatalf("%s, %v", body, err)
		}
		return answer.Limits[0]
	}
	l := me()
	var ids []string
	for _, g := range l.Grants {
		ids = append(ids, g.ID)
	}
	if !slices.Equal(ids, []string{"gift", "=order", "later"}) || l.Grants[0].Left != 0 || l.Grants[1].Left != 1000 || l.Grants[2].From.IsZero() {
		t.Errorf("%+v", l.Grants)
	}
	if r := l.Rollover; r == nil || r.Units != 0 || !r.Until.Equal(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", r)
	}
	s.now = s.now.AddDate(0, 0, 1)
	s.take(1, "user", "43")
	if r := me().Rollover; r == nil || r.Units != 4 || r.Used != 1 || r.Left != 3 || !r.Until.Equal(time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", r)
	}
}

// An operator sees what periods left to the next ones: of all subjects, of one, of a rule, also without records.
func TestRollovers(t *testing.T) {
	rules := strings.NewReplacer("per: 1d", "per: 1d, rollover: 4", "anchor: subscription", "anchor: subscription, rollover: 30").Replace(planRules)
	s := serviceOf(t, rules, plans{"user=42": {"pro", 15}, "user=45": {"house", 1}})
	s.options.Plan = func(subject string) string { return map[string]string{"user=42": "pro", "user=45": "house"}[subject] }
	s.options.Subscribed = func(subject string) time.Time {
		return map[string]time.Time{"user=42": time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC)}[subject]
	}
	s.take(80, "user", "42")
	s.now = time.Date(2026, 3, 19, 12, 0, 0, 0, time.UTC)
	s.take(8, "user", "43")
	s.take(10, "user", "44")
	s.take(1, "user", "45")
	s.now = s.now.AddDate(0, 0, 1)
	s.take(5, "user", "42")
	h := NewUsage(s.options)
	const user42 = `{"domain":"api","rule":"calls#1","limit":"api","subject":"user=42","units":20,"used":5,"left":15,"until":"2026-04-15T00:00:00Z"}`
	const user43 = `{"domain":"api","rule":"calls#1","limit":"api","subject":"user=43","units":2,"used":0,"left":2,"until":"2026-03-21T00:00:00Z"}`
	for path, want := range map[string]string{
		"/v1/usage/grants":                                `,"rollovers":[` + user42 + "," + user43 + "]",
		"/v1/usage/grants?subject=user%3D42":              `,"rollovers":[` + user42 + "]",
		"/v1/usage/grants?rule=calls%231&from=2026-03-22": `,"rollovers":[` + user42 + "]",
		"/v1/usage/grants?rule=calls":                     "",
		"/v1/usage/grants?subject=user%3D44":              "",
		"/v1/usage/grants?subject=user%3D45":              "",
		"/v1/usage/grants?subject=org%3D42":               "",
	} {
		if status, body, _ := s.ask(h, path); status != http.StatusOK || body != `{"grants":[]`+want+"}\n" {
			t.Errorf("%s: %d %s, want %s", path, status, body, want)
		}
	}
	s.options.Grants = func(subject string, yield func(Granted) bool) error {
		yield(Granted{Subject: "user=42", Limit: "api", Grant: limiter.Grant{ID: "gift", Units: 5, Until: stint.At(s.now.AddDate(1, 0, 0))}})
		return nil
	}
	_, csv, _ := s.ask(NewUsage(s.options), "/v1/usage/grants?format=csv")
	if want := strings.Join(grantHead, ",") + "\napi,calls#1,api,user=42,,20,5,15,0,,2026-04-15T00:00:00Z\napi,calls#1,api,user=42,gift,5,0,5,0,,2027-03-20T12:00:00Z\n" +
		"api,calls#1,api,user=43,,2,0,2,0,,2026-03-21T00:00:00Z\n"; csv != want {
		t.Errorf("%q, want %q", csv, want)
	}
	s.options.Grants, s.options.Store = nil, broken{}
	for _, path := range []string{"/v1/usage/grants", "/v1/usage/grants?subject=user%3D42"} {
		if status, body, _ := s.ask(NewUsage(s.options), path); status != http.StatusServiceUnavailable || strings.Contains(body, "secret") {
			t.Errorf("%s of a broken store: %d %s", path, status, body)
		}
	}
}
