package factsapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/internal/transaction"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

const rules = `
domain: api
descriptors:
  - key: user
    rate_limit:
      - {requests: 100, per: 1h, usage: 2, name: calls}
      - {requests: 1000, per: 1d, name: plain}
  - key: tenant
    descriptors: [{key: seat, rate_limit: {requests: 10, per: 1h, usage: 1, name: seats}}]
`

// usageAnswer is the answer to GET /v1/usage.
type usageAnswer struct {
	Usage []UsageRow `json:"usage"`
}

// service is a limiter with histories whose clock the test sets.
type service struct {
	*testing.T
	now     time.Time
	limiter *limiter.Limiter
	options UsageOptions
}

func newService(t *testing.T) *service {
	t.Helper()
	return serviceOf(t, rules, nil)
}

func serviceOf(t *testing.T, rules string, records limiter.Records) *service {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "a.yaml", Data: []byte(rules)})
	if err != nil {
		t.Fatal(err)
	}
	s := &service{T: t, now: time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)}
	store := memory.New(memory.Options{Clock: func() stint.Instant { return stint.At(s.now) }})
	s.limiter = limiter.New(store, table, limiter.Options{Records: records})
	s.options = UsageOptions{
		Store: store, Limiter: s.limiter, Table: s.limiter.Table, Namespace: "stint",
		Plan: func(subject string) string { return map[string]string{"user=42": "pro", "user=43": "free"}[subject] },
		now:  func() time.Time { return s.now },
	}
	return s
}

func (s *service) take(cost uint32, pairs ...string) {
	s.Helper()
	d := limiter.Descriptor{Cost: cost}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, rule.Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	var v limiter.Verdict
	if err := s.limiter.Decide(context.Background(), &limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{d}}, &v); err != nil {
		s.Fatal(err)
	}
}

// ask returns the status and the body of GET path.
func (s *service) ask(h http.Handler, path string, header ...string) (int, string, http.Header) {
	s.Helper()
	r := httptest.NewRequest("GET", path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String(), w.Header()
}

// used makes a history: two subjects over three hours, and a seat.
func (s *service) used() {
	s.Helper()
	for hour := range 3 {
		s.take(uint32(10+hour), "user", "42")
		s.now = s.now.Add(time.Hour)
	}
	s.take(5, "user", "43")
	s.take(7, "tenant", "t1", "seat", "=1+1")
}

// An operator reads the use of all, of a subject, of a rule, from a time on, and by plan.
func TestUsage(t *testing.T) {
	s := newService(t)
	s.used()
	h := NewUsage(s.options)
	for _, tt := range []struct {
		path string
		want []string // subject, used and whether open of each row
	}{
		{"/v1/usage", []string{"user=42 11", "user=42 12", "user=43 5 open", "seat==1+1 7 open"}}, // of 42 two periods before this one
		{"/v1/usage?subject=user%3D42", []string{"user=42 11", "user=42 12"}},
		{"/v1/usage?subject=user%3D44", nil},
		{"/v1/usage?subject=seat%3D%3D1%2B1", []string{"seat==1+1 7 open"}}, // the tenant does not follow from the seat
		{"/v1/usage?rule=seats", []string{"seat==1+1 7 open"}},
		{"/v1/usage?rule=none", nil},
		{"/v1/usage?from=2026-03-01T14:30:00Z", []string{"user=42 12", "user=43 5 open", "seat==1+1 7 open"}},
		{"/v1/usage?from=2026-03-02", nil},
		{"/v1/usage/export", []string{"user=42 11", "user=42 12"}},
	} {
		status, body, _ := s.ask(h, tt.path)
		var answer usageAnswer
		if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 200 || answer.Usage == nil {
			t.Errorf("%s: %d %s, %v", tt.path, status, body, err)
			continue
		}
		var got []string
		ids := map[string]bool{}
		for _, r := range answer.Usage {
			text := r.Subject + " " + cellOf(r.Used)
			if r.Open {
				text += " open"
			}
			got = append(got, text)
			ids[r.ID] = true
			if r.Subject == "user=42" && r.Plan != "pro" {
				t.Errorf("%s: plan %q", tt.path, r.Plan)
			}
		}
		if strings.Join(got, ", ") != strings.Join(tt.want, ", ") || len(ids) != len(got) {
			t.Errorf("%s: %q, want %q", tt.path, got, tt.want)
		}
	}
	_, first, _ := s.ask(h, "/v1/usage/export")
	s.now = s.now.Add(time.Minute)
	if _, again, _ := s.ask(h, "/v1/usage/export"); again != first {
		t.Errorf("the export differs the second time:\n%s\n%s", first, again)
	}
	_, body, _ := s.ask(h, "/v1/usage/plans?rule=calls")
	if want := `{"plans":[{"plan":"pro","domain":"api","rule":"calls","start":"2026-03-01T13:00:00Z","end":"2026-03-01T14:00:00Z","subjects":1,"used":11,"open":false},`; !strings.HasPrefix(body, want) {
		t.Errorf("%s, want %s...", body, want)
	}
}

func cellOf(n uint64) string { b, _ := json.Marshal(n); return string(b) }

// CSV comes by the parameter or the header, without formulas.
func TestCSV(t *testing.T) {
	s := newService(t)
	s.used()
	h := NewUsage(s.options)
	_, byParameter, header := s.ask(h, "/v1/usage?rule=seats&format=csv")
	_, byHeader, _ := s.ask(h, "/v1/usage?rule=seats", "Accept", "text/csv, */*")
	lines := strings.Split(byParameter, "\n")
	if byParameter != byHeader || !strings.HasPrefix(header.Get("Content-Type"), "text/csv") || lines[0] != strings.Join(rowHead, ",") || !strings.Contains(lines[1], ",seats,,seat==1+1,") {
		t.Errorf("%q, %q, %v", byParameter, byHeader, header)
	}
	if _, plans, _ := s.ask(h, "/v1/usage/plans?format=csv"); !strings.Contains(plans, "pro,api,calls,,2026-03-01T13:00:00Z,2026-03-01T14:00:00Z,1,11,false") {
		t.Errorf("%q", plans)
	}
	for text, want := range map[string]string{
		"": "", "a=b": "a=b", "=1": "'=1", "+1": "'+1", "@a": "'@a", "'a": "'a", "'=1": "''=1",
		"\n=1": "'\n'=1", "＝1": "'＝1", " =1": " '=1", "a;=1": "a;'=1", "a;b=1": "a;b=1", `a;"-1`: `a;"'-1`, "a\t@1": "a\t'@1", "a\xff=1": "a\xff=1", "a;b": "a;b",
	} {
		if got := cell(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// broken is a store that does not answer.
type broken struct{ UsageStore }

func (broken) Usage(context.Context, *stint.Take) (transaction.Usage, error) {
	return transaction.Usage{}, errors.New("secret cause")
}

func (broken) Usages(context.Context, func(transaction.Usage) bool) error {
	return errors.New("secret cause")
}

// What is wrong with a request is answered, and the cause of an error of the store is not.
func TestFaults(t *testing.T) {
	s := newService(t)
	h := NewUsage(s.options)
	for path, want := range map[string]int{
		"/v1/usage?subject=42": 400, "/v1/usage?from=tomorrow": 400, "/v1/usage?format=xml": 400, "/v1/usage?who=1": 400,
		"/v1/usage/other": 404, "/v1/usage?from=2026-02-30": 400,
	} {
		if status, body, _ := s.ask(h, path); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/v1/usage", nil))
	if w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d", w.Code)
	}
	s.options.Store = broken{}
	for _, path := range []string{"/v1/usage", "/v1/usage?subject=user%3D42"} {
		if status, body, _ := s.ask(NewUsage(s.options), path); status != 503 || strings.Contains(body, "secret") {
			t.Errorf("%s of a broken store: %d %s", path, status, body)
		}
	}
}

// slow is a store whose histories come when the test lets them.
type slow struct {
	UsageStore
	reads atomic.Int32
	open  chan struct{}
}

func (s *slow) Usages(context.Context, func(transaction.Usage) bool) error {
	s.reads.Add(1)
	<-s.open
	return nil
}

// At most two requests read all histories at the same time, and a request for one subject does not wait for them.
func TestFullReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		store := &slow{UsageStore: s.options.Store, open: make(chan struct{})}
		s.options.Store = store
		h := NewUsage(s.options)
		ask := func(path string) <-chan int {
			answer := make(chan int, 1)
			go func() {
				status, _, header := s.ask(h, path)
				if status == 503 && header.Get("Retry-After") != "30" {
					t.Errorf("Retry-After is %q", header.Get("Retry-After"))
				}
				answer <- status
			}()
			synctest.Wait()
			return answer
		}
		first, second, third := ask("/v1/usage"), ask("/v1/usage/plans"), ask("/v1/usage/export?format=csv")
		if status := <-ask("/v1/usage?subject=user%3D42"); status != 200 || store.reads.Load() != maxFull {
			t.Errorf("one subject: %d, and %d read all", status, store.reads.Load())
		}
		if status := <-third; status != 503 { // after waitFull
			t.Errorf("the third: %d", status)
		}
		fourth := ask("/v1/usage")
		close(store.open)
		if a, b, c := <-first, <-second, <-fourth; a != 200 || b != 200 || c != 200 {
			t.Errorf("%d, %d, and the one that waited %d", a, b, c)
		}
	})
}

// Parts of a history, which several servers have, are one row.
func TestParts(t *testing.T) {
	s := newService(t)
	s.used()
	s.options.Store = twice{s.options.Store}
	if got, want := s.rows(NewUsage(s.options), "/v1/usage?rule=calls"), "user=42 pro 22 03-01, user=42 pro 24 03-01, user=43 free 10 03-01"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// twice is a store that returns each history twice.
type twice struct{ UsageStore }

func (s twice) Usages(ctx context.Context, yield func(transaction.Usage) bool) error {
	return s.UsageStore.Usages(ctx, func(u transaction.Usage) bool {
		more := yield(u)
		return yield(u) && more
	})
}

// meOf returns the handler for customers: two keys of two subjects.
func (s *service) meOf() http.Handler {
	return NewMe(MeOptions{
		UsageOptions: s.options, Guard: memory.New(memory.Options{Clock: func() stint.Instant { return stint.At(s.now) }}),
		Identify: func(key string) (subject, plan string, err error) {
			switch key {
			case "key42":
				return "user=42", "pro", nil
			case "key43":
				return "user=43", "", nil
			case "unread":
				return "", "", errors.New("secret cause")
			}
			return "", "", nil
		},
	})
}

// A customer sees her own limits and history, and nobody else's.
func TestMe(t *testing.T) {
	s := newService(t)
	s.used()
	s.take(8, "user", "42")
	h := s.meOf()
	status, body, header := s.ask(h, MePath, "Authorization", "Bearer key42")
	var answer meAnswer
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 200 || header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %s, %v", status, body, err)
	}
	if answer.Subject != "user=42" || answer.Plan != "pro" || len(answer.Limits) != 2 || strings.Contains(body, "43") {
		t.Fatalf("%s", body)
	}
	calls, plain := answer.Limits[0], answer.Limits[1]
	if calls.Rule != "calls" || *calls.Requests != 100 || calls.Used != 8 || *calls.Left != 92 || !calls.Reset.Equal(time.Date(2026, 3, 1, 16, 0, 0, 0, time.UTC)) || len(calls.History) != 3 {
		t.Errorf("%+v", calls)
	}
	if last := calls.History[2]; last.Used != 8 || !last.Open || calls.History[0].Used != 11 || calls.History[0].Open {
		t.Errorf("%+v", calls.History)
	}
	if plain.Rule != "plain" || plain.Used != 41 || *plain.Left != 959 || len(plain.History) != 0 {
		t.Errorf("%+v", plain)
	}
	_, csv, _ := s.ask(h, MePath+"?format=csv", "X-Api-Key", "key42")
	if !strings.Contains(csv, "api,calls,2026-03-01T15:00:00Z,2026-03-01T16:00:00Z,8,true") || strings.Contains(csv, "43") {
		t.Errorf("%q", csv)
	}
	if _, other, _ := s.ask(h, MePath, "Authorization", "bearer key43"); !strings.Contains(other, `"used":5`) || strings.Contains(other, "42") {
		t.Errorf("%s", other)
	}
}

// A limit of her value alone replaces that of all values, so she sees one of them, and once.
func TestMeOnce(t *testing.T) {
	s := newService(t)
	table, err := rulefile.Parse(rulefile.Source{Name: "a.yaml", Data: []byte(`
domain: api
descriptors:
  - {key: user, rate_limit: {requests: 100, per: 1h, usage: 2, name: all}}
  - {key: user, value: "42", rate_limit: {requests: 7, per: 1h, usage: 2, name: own}}
`)})
	if err != nil {
		t.Fatal(err)
	}
	s.limiter.Swap(table)
	s.take(3, "user", "42")
	_, body, _ := s.ask(s.meOf(), MePath, "X-Api-Key", "key42")
	var answer meAnswer
	if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Limits) != 1 || answer.Limits[0].Rule != "own" || answer.Limits[0].Used != 3 {
		t.Errorf("%s, %v", body, err)
	}
}

// All keys that are not valid get one answer; so does a key that is not there, whatever else was asked.
func TestMeUnknown(t *testing.T) {
	s := newService(t)
	h := s.meOf()
	_, want, _ := s.ask(h, MePath)
	for _, header := range [][]string{{"Authorization", "Bearer x"}, {"X-Api-Key", "key44"}, {"Authorization", "Basic key42"}, {"Authorization", "Bearer"}} {
		for _, path := range []string{MePath, MePath + "?subject=user=42", MePath + "?format=xml"} {
			if status, body, answer := s.ask(h, path, header...); status != 401 || body != want || answer.Get("WWW-Authenticate") == "" {
				t.Errorf("%s %v: %d %s", path, header, status, body)
			}
		}
	}
	if status, body, _ := s.ask(h, MePath+"?subject=user=43", "X-Api-Key", "key42"); status != 400 {
		t.Errorf("the use of another subject: %d %s", status, body)
	}
	if status, body, _ := s.ask(h, MePath, "X-Api-Key", "unread"); status != 503 || strings.Contains(body, "secret") {
		t.Errorf("%d %s", status, body)
	}
}

// Addresses and subjects are limited, and wait as Retry-After says.
func TestMeLimited(t *testing.T) {
	s := newService(t)
	h := s.meOf()
	count := func(header ...string) (n int, last http.Header) {
		for range 200 {
			status, _, answer := s.ask(h, MePath, header...)
			if last = answer; status == 429 {
				return n, last
			}
			n++
		}
		return n, last
	}
	if n, answer := count("X-Api-Key", "key42"); n != 60 || answer.Get("Retry-After") != "1" {
		t.Errorf("%d requests of a subject, Retry-After %q", n, answer.Get("Retry-After"))
	}
	if n, _ := count("X-Api-Key", "wrong"); n != 59 { // of 120 of the address
		t.Errorf("%d further requests with wrong keys", n)
	}
	s.now = s.now.Add(time.Minute)
	if n, _ := count("X-Api-Key", "wrong"); n != 120 {
		t.Errorf("%d requests with wrong keys", n)
	}
}
