package main

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/limiter"
	"stint/limiter/reservation"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// door is a login behind the service, with a clock that only the test advances: it decides and settles as
// POST /v1/check with reserve and POST /v1/settle do.
type door struct {
	*testing.T
	now          stint.Instant
	limiter      *limiter.Limiter
	reservations *reservation.Reservations
	backend      []stint.Instant // when passwords were checked, of the attacker alone
}

func newDoor(t *testing.T) *door {
	d := &door{T: t, now: stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	table, err := rulefile.Load("../rules/login.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d.limiter = limiter.New(memory.New(memory.Options{Clock: func() stint.Instant { return d.now }}), table, limiter.Options{})
	d.reservations = reservation.New(d.limiter, nil, d.now.Time)
	return d
}

// try tries to sign in and returns the status.
func (d *door) try(user, address string, known, right bool) int {
	name, ip := rule.Entry{Key: "user", Value: user}, rule.Entry{Key: "remote_address", Value: address}
	lists := [][]rule.Entry{{name}, {name, ip}, {ip}, {{Key: "site", Value: "login"}}}
	if known {
		lists = append(lists, []rule.Entry{{Key: "known", Value: user}})
	}
	req := limiter.Request{Domain: "login", Answers: true}
	for _, entries := range lists {
		req.Descriptors = append(req.Descriptors, limiter.Descriptor{Entries: entries, Cost: 1})
	}
	var v limiter.Verdict
	if err := d.limiter.Decide(d.Context(), &req, &v); err != nil {
		d.Fatal(err)
	}
	if !v.Allowed {
		return http.StatusTooManyRequests
	}
	status := http.StatusUnauthorized
	if right {
		status = http.StatusOK
	}
	if _, err := d.reservations.Settle(d.Context(), d.reservations.Issue(&v), status); err != nil {
		d.Fatal(err)
	}
	return status
}

// guess is a try of the attacker, with a wrong password.
func (d *door) guess(user, address string) {
	if d.try(user, address, false, false) == http.StatusUnauthorized {
		d.backend = append(d.backend, d.now)
	}
}

// mostIn returns the most guesses that reached the backend within any time of that length.
func (d *door) mostIn(during time.Duration) (most int) {
	from := 0
	for i, at := range d.backend {
		for at.Sub(d.backend[from]) >= during {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// owner mistypes twice, and then signs in.
func (d *door) owner(user, address string, known bool) {
	d.Helper()
	for i, want := range []int{http.StatusUnauthorized, http.StatusUnauthorized, http.StatusOK} {
		if got := d.try(user, address, known, want == http.StatusOK); got != want {
			d.Errorf("at %v: try %d of %s at %s is answered %d, want %d", d.now.Time(), i+1, user, address, got, want)
		}
	}
}

// A million guesses for one account come from a hundred thousand addresses, in ten hours. At most 60 an
// hour and 300 a day reach the backend. The owner mistypes and signs in all the while on a known machine,
// and from a new one when the attack is over.
func TestMillionGuesses(t *testing.T) {
	testkit.OneGoroutine(t)
	d := newDoor(t)
	const guesses, addresses = 1_000_000, 100_000
	for i := range guesses {
		d.guess("ann", fmt.Sprint("bot", i%addresses))
		d.now += stint.Instant((10 * time.Hour / guesses).Microseconds())
		if i%(guesses/10) == guesses/20 {
			d.owner("ann", fmt.Sprint("home", i), true)
		}
	}
	if hour, day := d.mostIn(time.Hour), d.mostIn(24*time.Hour); hour != 60 || day != 300 {
		t.Errorf("%d guesses in an hour and %d in a day reach the backend, want 60 and 300", hour, day)
	}
	d.now = d.now.Add(24 * time.Hour)
	d.owner("ann", "hotel", false)
}

// A hundred thousand addresses try one password each, on as many names: no limit of a name or an address sees
// it. At most 1,000 an hour reach the backend. Who has a known machine signs in all the while, others an
// hour after the attack.
func TestSpraying(t *testing.T) {
	testkit.OneGoroutine(t)
	d := newDoor(t)
	for i := range 100_000 {
		d.guess(fmt.Sprint("user", i), fmt.Sprint("bot", i))
		d.now = d.now.Add(100 * time.Millisecond)
		if i%10_000 == 5_000 {
			d.owner("ann", fmt.Sprint("home", i), true)
			if got := d.try("bob", "hotel", false, true); got != http.StatusTooManyRequests {
				t.Errorf("guess %d: a new machine is answered %d, want 429", i, got)
			}
		}
	}
	if hour := d.mostIn(time.Hour); hour != 1000 {
		t.Errorf("%d guesses in an hour reach the backend, want 1000", hour)
	}
	d.now = d.now.Add(time.Hour)
	d.owner("bob", "hotel", false)
}

// Signing in to an account of his own between the guesses gives an attacker no more of them.
func TestSuccessClearsNothing(t *testing.T) {
	var reached []int
	for _, own := range []bool{false, true} {
		d := newDoor(t)
		for i := range 2000 {
			d.guess(fmt.Sprint("user", i), "bot")
			if own {
				d.try("mallory", "bot", true, true)
			}
			d.now = d.now.Add(time.Second)
		}
		reached = append(reached, len(d.backend))
	}
	if want := []int{90, 90}; !slices.Equal(reached, want) { // 30 in each of three quarters of an hour
		t.Errorf("%v guesses reach the backend without and with an account, want %v", reached, want)
	}
}
