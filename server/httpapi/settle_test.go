package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/limiter"
	"stint/limiter/reservation"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// loginTraffic returns endpoints over a limit of two wrong passwords, the clock of its reservations, and
// its store, which can be away.
func loginTraffic(t *testing.T) (traffic *Traffic, ahead *time.Duration, store *flaky) {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "login.yaml", Data: []byte(`
domain: login
descriptors:
  - key: user
    rate_limit: {requests: 2, per: 1h, algorithm: sliding_log, count: responses, statuses: [401], name: wrong}
`)})
	testkit.Must(t, err)
	store = &flaky{Store: memory.New(memory.Options{})}
	l := limiter.New(store, table, limiter.Options{})
	ahead = new(time.Duration)
	return NewTraffic(l, TrafficOptions{Reservations: reservation.New(l, nil, func() time.Time { return time.Now().Add(*ahead) })}), ahead, store
}

const login = `{"domain":"login","descriptors":[{"entries":[{"key":"user","value":"ann"}]}],"reserve":true}`

// post sends a body and returns the answer.
func post(t *testing.T, traffic *Traffic, path, body string) (status int, answer string) {
	t.Helper()
	var resp Response
	traffic.Serve(t.Context(), &Request{Method: "POST", Path: path, Header: headersForTest(""), Body: []byte(body)}, &resp)
	return resp.Status, string(resp.Body)
}

// reserve sends a check with reserve and returns its reservation, nil if there is none.
func reserve(t *testing.T, traffic *Traffic) (text *string) {
	t.Helper()
	status, answer := post(t, traffic, CheckPath, login)
	var v struct{ Reservation *string }
	if err := json.Unmarshal([]byte(answer), &v); err != nil || status != 200 || !strings.Contains(answer, `"reservation":`) {
		t.Fatalf("%d %s, %v", status, answer, err)
	}
	return v.Reservation
}

func settleBody(text string, status int) string {
	return fmt.Sprintf(`{"reservation":%q,"status":%d}`, text, status)
}

// A wrong password is charged and a right one is not, and who settles twice gets the first outcome.
func TestSettle(t *testing.T) {
	traffic, _, _ := loginTraffic(t)
	const charged, back = `{"charged":["wrong"],"given_back":[]}` + "\n", `{"charged":[],"given_back":["wrong"]}` + "\n"
	for i, step := range []struct {
		status int
		want   string
	}{{200, back}, {401, charged}, {500, back}, {401, charged}} {
		text := reserve(t, traffic)
		if text == nil {
			t.Fatalf("step %d: no reservation", i)
		}
		for _, again := range []int{step.status, 200, 401} {
			if status, answer := post(t, traffic, SettlePath, settleBody(*text, again)); status != 200 || answer != step.want {
				t.Errorf("step %d, settled with %d: %d %s, want %s", i, again, status, answer, step.want)
			}
		}
	}
	if text := reserve(t, traffic); text != nil {
		t.Errorf("after two wrong passwords there is the reservation %s", *text)
	}
}

// flaky is a store that can be away.
type flaky struct {
	stint.Store
	away bool
}

// What cannot be settled gets a reason and what to do.
func TestSettleFaults(t *testing.T) {
	traffic, ahead, store := loginTraffic(t)
	text := *reserve(t, traffic)
	fault := func(body string, status int, want string) {
		t.Helper()
		if got, answer := post(t, traffic, SettlePath, body); got != status || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s; want %d %s", body, got, answer, status, want)
		}
	}
	fault(`{"status":200}`, 400, `reservation: missing`)
	fault(`{"reservation":"x"}`, 400, `status: missing`)
	fault(settleBody(text, 99), 400, `status: not a status of HTTP`)
	fault(`{"reservation":"x","status":"200"}`, 400, `status: a string where a number belongs`)
	fault(`{"reservation":"x","status":200,"x":1}`, 400, `unknown field \"x\"`)
	fault(settleBody("x", 200), 404, `"not_found"`)
	fault(settleBody(text[:len(text)-2]+"AA", 200), 404, `--namespace-secret-file`)
	store.away = true
	fault(settleBody(text, 200), 503, `send the same again`)
	store.away = false
	*ahead = stint.MaxReservation + time.Second
	fault(settleBody(text, 200), 410, `"expired"`)
	*ahead = 0
	fault(settleBody(text, 200), 200, `"given_back":["wrong"]`)
	for body, want := range map[string]string{
		`{"key":"k","limit":{"requests":5,"per":"1s"},"reserve":true}`: `reserve: given with a limit of its own`,
		`{"checks":[` + login + `]}`:                                   `reserve: given with a limit of its own, or in a batch`,
		strings.Replace(login, "true", "1", 1):                         `reserve: a number where true or false belongs`,
	} {
		if status, answer := post(t, traffic, CheckPath, body); status != 400 || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s; want 400 %s", body, status, answer, want)
		}
	}
}

func (s *flaky) Decide(ctx context.Context, call *stint.Call) error {
	if s.away {
		return errors.New("away")
	}
	return s.Store.Decide(ctx, call)
}

// A proxy that sees the status settles too: a login that succeeds is given back, a second failure is refused.
func TestSettleByProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic, clients := newAuthForTest(t, AuthOptions{}), 0
		ask := func(query string) *Response {
			resp := new(Response)
			clients++ // each has a limit of its own
			traffic.Serve(t.Context(), proxyAsks("domain=web&"+query, "GET /?login=me", fmt.Sprintf("X-Forwarded-For: 2001:db8:%d::1", clients)), resp)
			return resp
		}
		for i, step := range []struct {
			settled, status int
			header          bool
		}{{200, 200, true}, {500, 200, true}, {401, 200, true}, {401, 429, false}} {
			resp := ask("reserve=true")
			text := field(resp, ReservationHeader)
			if resp.Status != step.status || (text != "") != step.header {
				t.Fatalf("step %d: %d with reservation %q", i, resp.Status, text)
			}
			if text == "" {
				continue
			}
			if status, answer := post(t, traffic, SettlePath, settleBody(text, step.settled)); status != 200 {
				t.Errorf("step %d: %d %s", i, status, answer)
			}
		}
		for query, status := range map[string]int{"reserve=1": 400, "reserve=false": 429} {
			if resp := ask(query); resp.Status != status || field(resp, ReservationHeader) != "" {
				t.Errorf("%s: %d, want %d", query, resp.Status, status)
			}
		}
	})
}
