package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"sync"
	"time"

	"stint/internal/jsonbody"
)

const (
	// SessionTime is how long a session lasts.
	SessionTime = 12 * time.Hour

	// CSRFHeader is the header that writes in a session need, with the CSRF token of the session. A
	// page of another site can make a browser send the cookie, but not the header.
	CSRFHeader = "X-Stint-CSRF"

	// sessionCookie is the name of the cookie with the name of a session.
	sessionCookie = "stint_session"

	// maxSessions is the most sessions at a time. One more ends the oldest.
	maxSessions = 10_000
)

// Session is the login of a browser. It has no rights of its own: each call is that of the caller
// who has the token with which the session began, if a list still has it.
type Session struct {
	CSRF  string // what writes send in CSRFHeader
	Until time.Time

	token [sha256.Size]byte // hash of the token of the caller
}

// Sessions are the logins of browsers at one process. They are in memory, so that a restart ends them.
// The zero Sessions has none. It is safe for concurrent use.
type Sessions struct {
	mu   sync.Mutex // guards the field below
	byID map[[sha256.Size]byte]Session
}

// Login begins a session of the caller who has a token, and sets its cookie. It returns false if
// nobody has the token.
func (g *Guard) Login(w http.ResponseWriter, r *http.Request, token string, now time.Time) (Session, Caller, bool) {
	hash := sha256.Sum256([]byte(token))
	caller, ok := g.callerOf(hash)
	if !ok || g.Sessions == nil {
		return Session{}, Caller{}, false
	}
	s := Session{CSRF: rand.Text(), Until: now.Add(SessionTime), token: hash}
	id := rand.Text() + rand.Text()
	g.Sessions.add(sha256.Sum256([]byte(id)), s, now)
	http.SetCookie(w, cookie(r, id, int(SessionTime/time.Second)))
	return s, caller, true
}

// Logout ends the session of a request, if it has one, and deletes its cookie.
func (g *Guard) Logout(w http.ResponseWriter, r *http.Request) {
	if g.Sessions == nil {
		return
	}
	if c, err := r.Cookie(sessionCookie); err == nil {
		g.Sessions.remove(sha256.Sum256([]byte(c.Value)))
	}
	http.SetCookie(w, cookie(r, "", -1))
}

// cookie returns the cookie of a session. Scripts cannot read it, other sites cannot make a browser
// send it, and a connection without encryption does not carry it if it was set over one with.
func cookie(r *http.Request, id string, age int) *http.Cookie {
	return &http.Cookie{
		Name: sessionCookie, Value: id, Path: "/", MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	}
}

// Session returns the session of a request and its caller. It returns false if there is none, if it
// has ended, or if no list has the caller's token any more.
func (g *Guard) Session(r *http.Request, now time.Time) (Session, Caller, bool) {
	if g.Sessions == nil {
		return Session{}, Caller{}, false
	}
	c, err := r.Cookie(sessionCookie)
	if err != nil {
		return Session{}, Caller{}, false
	}
	s, ok := g.Sessions.get(sha256.Sum256([]byte(c.Value)), now)
	if !ok {
		return Session{}, Caller{}, false
	}
	caller, ok := g.callerOf(s.token)
	return s, caller, ok
}

// callerOf returns who has the token with a hash.
func (g *Guard) callerOf(hash [sha256.Size]byte) (Caller, bool) {
	for _, list := range g.Lists {
		if c, ok := list().tokens[hash]; ok {
			return c, true
		}
	}
	return Caller{}, false
}

// allows reports whether a request may use its session: it looks only, or has the CSRF token. Else
// it is answered.
func (g *Guard) allows(w http.ResponseWriter, r *http.Request, s *Session) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead ||
		subtle.ConstantTimeCompare([]byte(r.Header.Get(CSRFHeader)), []byte(s.CSRF)) == 1 {
		return true
	}
	g.Refuse(w, r, &jsonbody.Fault{
		Status: http.StatusForbidden, Code: jsonbody.Forbidden,
		Problem: "a session without its header " + CSRFHeader,
		Hint:    "send the csrf of GET /session in it, or a token as Authorization: Bearer TOKEN",
	})
	return false
}

// add adds a session. It removes those that have ended, and the oldest if there are too many.
func (s *Sessions) add(id [sha256.Size]byte, one Session, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[[sha256.Size]byte]Session{}
	}
	var oldest [sha256.Size]byte
	first := time.Time{}
	for other, o := range s.byID {
		if !now.Before(o.Until) {
			delete(s.byID, other)
		} else if first.IsZero() || o.Until.Before(first) {
			oldest, first = other, o.Until
		}
	}
	if len(s.byID) >= maxSessions {
		delete(s.byID, oldest)
	}
	s.byID[id] = one
}

// get returns a session that has not ended.
func (s *Sessions) get(id [sha256.Size]byte, now time.Time) (Session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.byID[id]
	return one, ok && now.Before(one.Until)
}

// remove ends a session.
func (s *Sessions) remove(id [sha256.Size]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, id)
}
