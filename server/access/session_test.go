package access

import (
	"crypto/sha256"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"stint/internal/logging"
)

// newGuard returns a guard with sessions, of admin-token with the token secret.
func newGuard() *Guard {
	one := Single("secret")
	return &Guard{Lists: []func() *List{func() *List { return one }}, Sessions: &Sessions{}, Refused: &logging.MisuseLog{Log: slog.New(slog.DiscardHandler)}}
}

// begin logs in and returns a request with the cookie of the session.
func begin(t *testing.T, g *Guard, now time.Time) (*http.Request, Session) {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	s, caller, ok := g.Login(w, r, "secret", now)
	if !ok || caller != (Caller{"admin-token", Write}) {
		t.Fatalf("%v %v", caller, ok)
	}
	r.AddCookie(w.Result().Cookies()[0])
	return r, s
}

// A session ends after its time, and its cookie stays on encrypted connections if it began on one.
func TestSessionEnds(t *testing.T) {
	g, now := newGuard(), time.Now()
	r, s := begin(t, g, now)
	for after, want := range map[time.Duration]bool{0: true, SessionTime - 1: true, SessionTime: false, 2 * SessionTime: false} {
		if _, _, ok := g.Session(r, now.Add(after)); ok != want {
			t.Errorf("after %s: %v", after, ok)
		}
	}
	if s.Until != now.Add(12*time.Hour) {
		t.Errorf("until %s", s.Until)
	}
	other := httptest.NewRequest(http.MethodGet, "/", nil)
	other.AddCookie(&http.Cookie{Name: sessionCookie, Value: "x"})
	if _, _, ok := g.Session(other, now); ok {
		t.Error("an unknown cookie has a session")
	}
	if _, _, ok := (&Guard{Lists: g.Lists}).Session(r, now); ok {
		t.Error("a guard without sessions has one")
	}
	for _, state := range []*tls.ConnectionState{nil, {}} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
		r.TLS = state
		g.Login(w, r, "secret", now)
		if c := w.Result().Cookies()[0]; c.Secure != (state != nil) || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
			t.Errorf("%+v", c)
		}
	}
}

// An expired session is answered with 401, as is none.
func TestRequireSession(t *testing.T) {
	g := newGuard()
	answer := func(r *http.Request, method, csrf string) int {
		r = r.Clone(t.Context())
		r.Method = method
		r.Header.Set(CSRFHeader, csrf)
		w := httptest.NewRecorder()
		g.Require(Write, func(_ http.ResponseWriter, r *http.Request) {
			if _, bounded := r.Context().Deadline(); !bounded {
				t.Error("a stream would outlive its session")
			}
		})(w, r)
		return w.Code
	}
	r, s := begin(t, g, time.Now())
	late, old := begin(t, g, time.Now().Add(-SessionTime))
	for _, c := range []struct {
		what         string
		r            *http.Request
		method, csrf string
		want         int
	}{
		{"a look", r, "GET", "", 200},
		{"a write", r, "POST", s.CSRF, 200},
		{"a write without the header", r, "POST", "", 403},
		{"a write with the header of another session", r, "DELETE", old.CSRF, 403},
		{"an expired session", late, "GET", old.CSRF, 401},
		{"no session", httptest.NewRequest(http.MethodGet, "/", nil), "GET", s.CSRF, 401},
	} {
		if got := answer(c.r, c.method, c.csrf); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}

// There are never more than maxSessions; the oldest ends first, and those that have ended make room.
func TestManySessions(t *testing.T) {
	s, now := &Sessions{}, time.Now()
	id := func(i int) [sha256.Size]byte { return sha256.Sum256([]byte(strconv.Itoa(i))) }
	s.byID = map[[sha256.Size]byte]Session{}
	for i := range maxSessions {
		s.byID[id(i)] = Session{Until: now.Add(time.Hour + time.Duration(i))}
	}
	s.add(id(-1), Session{Until: now.Add(2 * time.Hour)}, now)
	if _, ok := s.get(id(0), now); ok || len(s.byID) != maxSessions {
		t.Errorf("%d sessions, and the oldest: %v", len(s.byID), ok)
	}
	if _, ok := s.get(id(-1), now); !ok {
		t.Error("the new session is missing")
	}
	s.add(id(-2), Session{Until: now.Add(4 * time.Hour)}, now.Add(90*time.Minute))
	if len(s.byID) != 2 {
		t.Errorf("%d sessions after nearly all have ended", len(s.byID))
	}
}
