// Command login serves a login page, and limits guessing of passwords with
// examples/rules/login.yaml. The files beside it do the same in other languages, by a service.
package main

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"html/template"
	"log"
	"math"
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
	log.Printf("open http://%s/ and sign in as ann, whose password is correct horse; or guess", server.Addr)
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
		Denied: func(w http.ResponseWriter, _ *http.Request, v *limiter.Verdict) {
			if v.Degraded {
				show(w, http.StatusServiceUnavailable, "Nobody can sign in at the moment. Try again soon.")
				return
			}
			show(w, http.StatusTooManyRequests, "Too many wrong passwords. Try again in "+wait(v.RetryAfter)+".")
		},
	})
	mux := http.NewServeMux()
	mux.Handle("POST /login", s.identify(limited(http.HandlerFunc(s.login))))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { show(w, http.StatusOK, "") })
	return mux, nil
}

// page is the login page, with what became of the last try.
var page = template.Must(template.New("login").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Sign in</title>
<h1>Sign in</h1>
{{with .}}<p role="status">{{.}}</p>{{end}}
<form method="post" action="/login">
<p><label>Name <input name="user" autocomplete="username" maxlength="64" required></label></p>
<p><label>Password <input name="password" type="password" autocomplete="current-password" required></label></p>
<p><button>Sign in</button></p>
</form>
</html>
`))

// show sends the page with a status.
func show(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = page.Execute(w, text) // an error means that the client has disconnected
}

// wait returns a time to wait in words.
func wait(d time.Duration) string {
	if minutes := int(math.Ceil(d.Minutes())); minutes > 1 {
		return fmt.Sprint(minutes, " minutes")
	}
	return "a minute"
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
			show(w, http.StatusBadRequest, "Give a name and a password.")
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
		show(w, http.StatusUnauthorized, "Wrong name or password.")
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: knownCookie, Value: s.sign(user), Path: "/login", MaxAge: 90 * 24 * 3600,
		Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	show(w, http.StatusOK, "Welcome, "+user+".")
}
