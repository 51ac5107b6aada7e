// Command login serves a login form, and limits guessing of passwords with
// examples/rules/login.yaml.
package main

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"log"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"stint"
	"stint/httplimit"
	"stint/limiter"
	"stint/rule/rulefile"
	"stint/store/memory"
)

func main() {
	s := &site{check: passwords(map[string]string{"ann": "correct horse", "bob": "battery staple"}), secret: make([]byte, sha256.Size)}
	_, _ = rand.Read(s.secret) // it never fails; a real site keeps its secret over restarts
	handler, err := s.handler(memory.New(memory.Options{}), "rules/login.yaml")
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: "127.0.0.1:8000", Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	log.Printf("try curl -i http://%s/login -d user=ann -d password=guess", server.Addr)
	log.Fatal(server.ListenAndServe())
}

// site is a site with a login.
type site struct {
	check  func(user, password string) bool
	secret []byte // signs the cookies of known machines
}

// passwords is a stand-in for a user database. A real one has hashes.
func passwords(of map[string]string) func(user, password string) bool {
	return func(user, password string) bool {
		want, ok := of[user]
		return subtle.ConstantTimeCompare([]byte(password), []byte(want)) == 1 && ok
	}
}

// handler returns the site, with its login limited by a rule file.
func (s *site) handler(store stint.Store, rules string) (http.Handler, error) {
	table, err := rulefile.Load(rules)
	if err != nil {
		return nil, err
	}
	limited := httplimit.New(limiter.New(store, table, limiter.Options{}), "login", httplimit.Options{
		// The proxy in front, on this machine: only its forwarded header is used.
		Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	mux := http.NewServeMux()
	mux.Handle("POST /login", s.identify(limited(http.HandlerFunc(s.login))))
	return mux, nil
}

// The headers that the rules read, the cookie of a machine from which a user has signed in, and
// limits on the size of requests.
const (
	userHeader  = "X-Login-User"
	knownHeader = "X-Login-Known"
	knownCookie = "known"
	maxForm     = 4 << 10
	maxUser     = 64
)

// identify sets the headers with the user that a request tries, and replaces those that the client
// sent.
func (s *site) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		err := r.ParseForm()
		user := spelled(r.PostForm.Get("user"))
		if err != nil || user == "" || len(user) > maxUser {
			http.Error(w, "send a form with user and password", http.StatusBadRequest)
			return
		}
		r.Header.Set(userHeader, user)
		r.Header.Del(knownHeader)
		if c, err := r.Cookie(knownCookie); err == nil && hmac.Equal([]byte(c.Value), []byte(s.sign(user))) {
			r.Header.Set(knownHeader, user)
		}
		next.ServeHTTP(w, r)
	})
}

// spelled returns a user's name in the one spelling that accounts are stored in.
func spelled(user string) string { return strings.ToLower(strings.TrimSpace(user)) }

// sign returns the cookie value for a machine from which the user has signed in.
func (s *site) sign(user string) string {
	mac := hmac.New(sha256.New, s.secret)
	mac.Write([]byte(user))
	return hex.EncodeToString(mac.Sum(nil))
}

// login answers a wrong password with 401, which the rules count.
func (s *site) login(w http.ResponseWriter, r *http.Request) {
	user := r.Header.Get(userHeader)
	if !s.check(user, r.PostForm.Get("password")) {
		http.Error(w, "wrong user or password", http.StatusUnauthorized)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: knownCookie, Value: s.sign(user), Path: "/login", MaxAge: 90 * 24 * 3600,
		Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	fmt.Fprintln(w, "welcome,", user)
}
