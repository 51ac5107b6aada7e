package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stint"
	"stint/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a site behind a proxy, with a clock that only the test advances.
type world struct {
	*testing.T
	now atomic.Int64 // microseconds
	url string
}

var accounts = passwords(map[string]string{"ann": "correct horse", "bob": "battery staple"})

func newWorld(t *testing.T, check func(user, password string) bool) *world {
	w := &world{T: t}
	w.now.Store(1767225600_000_000) // 2026-01-01
	store := memory.New(memory.Options{Clock: func() stint.Instant { return stint.Instant(w.now.Load()) }})
	s := &site{check: check, secret: []byte("of the test")}
	handler, err := s.handler(store, "../rules/login.yaml")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

// pass advances the clock.
func (w *world) pass(d time.Duration) { w.now.Add(d.Microseconds()) }

// visitor is a client with an address, and maybe a cookie.
type visitor struct{ address, known string }

// try tries to sign in and returns the status.
func (w *world) try(v *visitor, user, password string) int {
	status, err := w.send(v, user, password)
	if err != nil {
		w.Error(err)
	}
	return status
}

func (w *world) send(v *visitor, user, password string) (status int, err error) {
	form := url.Values{"user": {user}, "password": {password}}
	r, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.url+"/login", strings.NewReader(form.Encode()))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-Forwarded-For", v.address) // as the proxy writes it
	r.Header.Set(userHeader, "somebody else")  // any client can send this header
	r.Header.Set(knownHeader, user)
	if v.known != "" {
		r.AddCookie(&http.Cookie{Name: knownCookie, Value: v.known})
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	answer.Body.Close()
	if told := answer.Header["X-Ratelimit-Remaining"]; told != nil {
		return 0, fmt.Errorf("an answer tells strangers %v", told)
	}
	for _, c := range answer.Cookies() {
		v.known = c.Value
	}
	return answer.StatusCode, nil
}

// honest is a user who mistypes twice and then signs in.
func (w *world) honest(when string, v *visitor, user, password string) {
	w.Helper()
	for i, typed := range []string{"corect horse", "CORRECT HORSE", password} {
		want := http.StatusUnauthorized
		if typed == password {
			want = http.StatusOK
		}
		if got := w.try(v, user, typed); got != want {
			w.Errorf("%s, %s at %s: try %d is answered %d, want %d", when, user, v.address, i+1, got, want)
		}
	}
}

// One address tries one password for a thousand names, one each second. It has thirty guesses in a
// quarter of an hour, and users at other addresses can still sign in.
func TestOneAddressManyUsers(t *testing.T) {
	w := newWorld(t, accounts)
	attacker, ann := &visitor{address: "198.51.100.1"}, &visitor{address: "192.0.2.1"}
	statuses := map[int]int{}
	for i := range 1000 {
		statuses[w.try(attacker, fmt.Sprint("user", i), "123456")]++
		if i == 500 {
			w.honest("under attack", ann, "Ann ", "correct horse")
		}
		w.pass(time.Second)
	}
	// 1,000 s are one quarter of an hour and 100 s of the next, in which 30 are free again.
	if statuses[http.StatusUnauthorized] != 60 || statuses[http.StatusTooManyRequests] != 940 {
		t.Errorf("the guesses are answered %v, want 60 that count", statuses)
	}
	if got := w.try(attacker, "bob", "battery staple"); got != http.StatusTooManyRequests {
		t.Errorf("the right password from the address of the attack is answered %d, want 429", got)
	}
	w.pass(15 * time.Minute)
	if got := w.try(attacker, "bob", "battery staple"); got != http.StatusOK {
		t.Errorf("a quarter of an hour later it is answered %d, want 200", got)
	}
}

// Three thousand addresses try one password each for one name, in five hours. They have 60 guesses
// an hour and 300 a day. A user with a machine from which she has signed in before can still sign
// in there. On a new machine she can sign in after the attack; she is never locked out for good.
func TestManyAddressesOneUser(t *testing.T) {
	w := newWorld(t, accounts)
	home, hotel := &visitor{address: "192.0.2.1"}, &visitor{address: "203.0.113.5"}
	if got := w.try(home, "ann", "correct horse"); got != http.StatusOK || home.known == "" {
		t.Fatalf("signing in is answered %d, with cookie %q", got, home.known)
	}
	w.pass(24 * time.Hour)
	forged := strings.Repeat("0", 64)
	guesses := 0
	for i := range 3000 {
		bot := &visitor{address: fmt.Sprintf("10.0.%d.%d", i/250, i%250), known: forged}
		if w.try(bot, "ann", fmt.Sprint("guess", i)) == http.StatusUnauthorized {
			guesses++
		}
		switch i {
		case 599: // the first hour
			if guesses != 60 {
				t.Errorf("%d guesses in the first hour, want 60", guesses)
			}
		case 750:
			w.honest("under attack, at home", home, "ann", "correct horse")
			home.address = "192.0.2.77" // her provider assigned a new address
			w.honest("under attack, at another address", home, "ann", "correct horse")
			if got := w.try(hotel, "ann", "correct horse"); got != http.StatusTooManyRequests {
				t.Errorf("under attack, on a new machine: answered %d, want 429", got)
			}
			w.honest("under attack, another user", hotel, "bob", "battery staple")
		}
		w.pass(6 * time.Second)
	}
	if guesses != 300 {
		t.Errorf("%d guesses in five hours, want 300", guesses)
	}
	w.pass(24 * time.Hour)
	hotel.known = ""
	w.honest("after the attack, on a new machine", hotel, "ann", "correct horse")
}

// Two hundred guesses at once, all decided before the first is answered: five pass, and after a
// minute five more.
func TestParallelGuesses(t *testing.T) {
	const many, pass = 200, 5
	decided, open := make(chan bool, many), make(chan struct{})
	w := newWorld(t, func(string, string) bool {
		decided <- true
		<-open
		return false
	})
	for round := range 2 {
		var group sync.WaitGroup
		for i := range many {
			group.Go(func() {
				if w.try(&visitor{address: "198.51.100.1"}, "ann", fmt.Sprint("guess", i)) != http.StatusUnauthorized {
					decided <- false
				}
			})
		}
		passed := 0
		for range many {
			if <-decided {
				passed++
			}
		}
		for range passed {
			open <- struct{}{}
		}
		group.Wait()
		if passed != pass {
			t.Errorf("round %d: %d guesses pass, want %d", round+1, passed, pass)
		}
		w.pass(time.Minute)
	}
}

// Successful logins charge nothing, and neither do errors of the site.
func TestOnlyFailuresCount(t *testing.T) {
	w := newWorld(t, func(user, password string) bool {
		if password == "break" {
			panic(http.ErrAbortHandler)
		}
		return accounts(user, password)
	})
	ann := &visitor{address: "192.0.2.1"}
	for i := range 100 {
		if got := w.try(ann, "ann", "correct horse"); got != http.StatusOK {
			t.Fatalf("signing in for the %dth time is answered %d", i+1, got)
		}
	}
	for range 4 {
		w.try(ann, "ann", "wrong")
	}
	if status, err := w.send(ann, "ann", "break"); err == nil {
		t.Errorf("a login that breaks is answered %d", status)
	}
	for _, want := range []int{200, 401, 429} {
		password := "wrong"
		if want == 200 {
			password = "correct horse"
		}
		if got := w.try(ann, "ann", password); got != want {
			t.Errorf("after four failures: answered %d, want %d", got, want)
		}
	}
}

// A request that is no login is refused and not counted.
func TestBadForms(t *testing.T) {
	w := newWorld(t, accounts)
	for _, form := range []string{"", "user=", "user=%20", "password=x", "user=" + strings.Repeat("x", 65), "user=a&x=" + strings.Repeat("x", 5000), "user=%zz"} {
		answer, err := http.Post(w.url+"/login", "application/x-www-form-urlencoded", strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%.20q is answered %d, want 400", form, answer.StatusCode)
		}
	}
}

// The page has a form that the login takes, and says what became of it.
func TestPage(t *testing.T) {
	w := newWorld(t, accounts)
	read := func(answer *http.Response, err error) (int, string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	status, page := read(http.Get(w.url + "/"))
	if status != http.StatusOK || !strings.Contains(page, `<form method="post" action="/login">`) || !strings.Contains(page, `name="user"`) || !strings.Contains(page, `name="password"`) {
		t.Errorf("%d %s", status, page)
	}
	for i, want := range []string{"Wrong name or password.", "Wrong name or password.", "Wrong name or password.", "Wrong name or password.", "Wrong name or password.", "Try again in a minute.", ""} {
		form := url.Values{"user": {"ann"}, "password": {"guess"}}
		if want == "" {
			form, want = url.Values{"user": {"<b>"}, "password": {"x"}}, "Wrong name or password."
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/login", strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("X-Forwarded-For", "192.0.2.1")
		if _, page := read(http.DefaultClient.Do(r)); !strings.Contains(page, want) || !strings.Contains(page, "<form") {
			t.Errorf("try %d: no %q in %s", i+1, want, page)
		}
	}
}
