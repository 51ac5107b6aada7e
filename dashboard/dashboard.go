// Package dashboard is the operators' page: one HTML document, one script and one style sheet,
// embedded in the program. The page reads the admin API of its own listener, and changes through it
// what its caller may change; it loads nothing from elsewhere.
//
// The package also has what only the page needs: login and logout, and the text of the rule files
// with the place of each fault. docs/dashboard.md describes the page.
package dashboard

import (
	"bytes"
	"embed"
	"net/http"
	"time"

	"stint/internal/jsonbody"
	"stint/internal/web"
	"stint/rule"
	"stint/server/access"
)

// Paths are the paths of the page, beside / for browsers.
var Paths = []string{scriptPath, stylePath, loginPath, logoutPath, sessionPath, RuleTextPath}

const (
	scriptPath  = "/page.js"
	stylePath   = "/page.css"
	loginPath   = "/login"
	logoutPath  = "/logout"
	sessionPath = "/session"

	// RuleTextPath is the path of the rule files with their faults.
	RuleTextPath = "/v1/rule-text"
)

// policy is the Content-Security-Policy of the page. With it a browser runs only the script of the
// page, and no text can become a script.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Options are the settings of the page.
type Options struct {
	// Table returns the rules in force; nil for none.
	Table func() *rule.Table

	// Load reads the rule files again, and puts nothing in force. It returns a [*rule.Errors] if the
	// files have faults.
	Load func() (*rule.Table, error)
}

// page handles the requests.
type page struct {
	guard *access.Guard
	texts ruleTexts
	files map[string]file
	mux   http.ServeMux
}

// file is a static file.
type file struct {
	kind string
	body []byte
}

//go:embed page
var sources embed.FS

// scripts are the parts of the script in the order in which they run.
var scripts = []string{"format.js", "dom.js", "api.js", "chart.js", "table.js", "overview.js", "rules.js", "keys.js", "fleet.js", "records.js", "denials.js", "text.js", "main.js"}

// New returns the handler of the page for the callers of a guard, to which it adds sessions. Other
// paths than / and [Paths] are unknown to it.
func New(guard *access.Guard, o Options) http.Handler {
	guard.Sessions = &access.Sessions{}
	p := &page{guard: guard, texts: ruleTexts{options: o}, files: map[string]file{
		"/":        {"text/html; charset=utf-8", source("page.html")},
		scriptPath: {"text/javascript; charset=utf-8", script()},
		stylePath:  {"text/css; charset=utf-8", append([]byte(web.ChartStyle()), source("page.css")...)},
	}}
	for path := range p.files {
		exact := path
		if path == "/" {
			exact = "/{$}"
		}
		p.mux.HandleFunc(exact, p.static)
	}
	p.mux.HandleFunc(loginPath, p.login)
	p.mux.HandleFunc(logoutPath, p.logout)
	p.mux.HandleFunc(sessionPath, p.session)
	p.mux.HandleFunc(RuleTextPath, guard.Guarded(access.Read, p.texts.ServeHTTP))
	return p
}

// ServeHTTP handles a request.
func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// source returns an embedded file.
func source(name string) []byte {
	b, err := sources.ReadFile("page/" + name)
	if err != nil {
		panic(err) // cannot happen: the file is embedded
	}
	return b
}

// script returns the chart library and the parts of the script as one.
func script() []byte {
	var b bytes.Buffer
	b.WriteString(web.ChartScript())
	b.WriteString("\n\"use strict\";\n(() => {\n")
	for _, name := range scripts {
		b.Write(source(name))
	}
	b.WriteString("})();\n")
	return b.Bytes()
}

// static serves a file of the page. The files hold no data, so a browser gets them before its login.
func (p *page) static(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		jsonbody.RefuseMethod(w, r, "GET", "HEAD")
		return
	}
	f, h := p.files[r.URL.Path], w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	_, _ = w.Write(f.body) // an error means that the client has disconnected
}

// sessionAnswer says who the caller of the page is.
type sessionAnswer struct {
	Login  bool       `json:"login"` // a login is needed
	Caller string     `json:"caller"`
	Role   string     `json:"role"`
	CSRF   string     `json:"csrf"` // what writes must send in the header X-Stint-CSRF; "" for nothing
	Until  *time.Time `json:"until"`
}

// session answers who the caller is. Without tokens everybody who reaches the listener may do all.
func (p *page) session(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		jsonbody.RefuseMethod(w, r, "GET", "HEAD")
		return
	}
	answer := sessionAnswer{Role: access.Write.String()}
	if !p.guard.Open() {
		answer = sessionAnswer{Login: true}
		if caller, known := p.guard.Caller(r); known {
			answer = sessionAnswer{Caller: caller.Name, Role: caller.Role.String()}
		} else if s, caller, known := p.guard.Session(r, time.Now()); known {
			answer = answerOf(s, caller)
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	jsonbody.WriteJSON(w, http.StatusOK, answer)
}

func answerOf(s access.Session, c access.Caller) sessionAnswer {
	return sessionAnswer{Caller: c.Name, Role: c.Role.String(), CSRF: s.CSRF, Until: &s.Until}
}

// maxLogin is the maximum size of the body of a login in bytes.
const maxLogin = 4 << 10

// login begins a session for a token. The caller has checked that the request is not from a page of
// another site.
func (p *page) login(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		jsonbody.RefuseMethod(w, r, "POST")
		return
	}
	if p.guard.Open() {
		jsonbody.NoSuch("this listener has no tokens, so there is nothing to log in to", "open /; to ask for tokens, start the service with --admin-access FILE").Write(w)
		return
	}
	token, f := readToken(r)
	if f != nil {
		f.Write(w)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	s, caller, ok := p.guard.Login(w, r, token, time.Now())
	if !ok {
		p.guard.Refuse(w, r, &jsonbody.Fault{
			Status: http.StatusUnauthorized, Code: jsonbody.Unauthorized,
			Problem: "nobody has this token", Hint: "ask whoever runs the service; stint token makes one",
		})
		return
	}
	jsonbody.WriteJSON(w, http.StatusOK, answerOf(s, caller))
}

// readToken reads the body of a login.
func readToken(r *http.Request) (token string, f *jsonbody.Fault) {
	if f := jsonbody.CheckType(r.Header.Get("Content-Type")); f != nil {
		return "", f
	}
	body, err := jsonbody.Read(nil, r, maxLogin)
	if err != nil {
		return "", jsonbody.ReadFault(err, maxLogin)
	}
	s := jsonbody.Scanner{Data: body}
	if _, f = s.Object([]string{"token"}, func(int) (f *jsonbody.Fault) { token, f = s.Text(); return f }); f != nil {
		return "", f
	}
	return token, s.End()
}

// logout ends the session of the caller, if it has one.
func (p *page) logout(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		jsonbody.RefuseMethod(w, r, "POST")
		return
	}
	p.guard.Logout(w, r)
	w.WriteHeader(http.StatusNoContent)
}
