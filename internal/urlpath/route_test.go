package urlpath

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

var samplePatterns = []string{
	"GET /users/{id}", "POST /users/{id}", "GET /users/me", "/users/{id}/orders/{$}", "/users/{id}/orders/{order}",
	"/static/", "/files/{rest...}", "/{$}", "DELETE /gone/", "/a/{x}/c", "/a/b/c", "/a/b/d/{y...}", "/caf\u00e9/{z}", "/caf%C3%A8/x",
}

func TestMatch(t *testing.T) {
	set, i, err := NewRoutes(samplePatterns)
	if err != nil {
		t.Fatal(i, err)
	}
	for _, tt := range []struct{ method, path, want string }{
		{"GET", "/users/1", "GET /users/{id}"},
		{"HEAD", "/users/2", "GET /users/{id}"},
		{"POST", "/users/1", "POST /users/{id}"},
		{"PUT", "/users/1", ""},
		{"GET", "/users/", ""},
		{"GET", "/users/me", "GET /users/me"},
		{"HEAD", "/users/me", "GET /users/me"},
		{"POST", "/users/me", "POST /users/{id}"},
		{"GET", "/users/1/orders/", "/users/{id}/orders/{$}"},
		{"GET", "/users/1/orders", ""},
		{"GET", "/users/1/orders/7", "/users/{id}/orders/{order}"},
		{"GET", "/static/a/b/c.css", "/static/"},
		{"GET", "/static/", "/static/"},
		{"GET", "/files/", "/files/{rest...}"},
		{"GET", "/files/a/b", "/files/{rest...}"},
		{"GET", "/", "/{$}"},
		{"DELETE", "/gone/x/y", "DELETE /gone/"},
		{"GET", "/a/b/c", "/a/b/c"},
		{"GET", "/a/b/d/c", "/a/b/d/{y...}"},
		{"GET", "/a/z/c", "/a/{x}/c"},
		{"GET", RoutePath("/caf\u00e9/1"), "/caf\u00e9/{z}"},
		{"GET", RoutePath("/caf%c3%a8/x"), "/caf%C3%A8/x"},
		{"OPTIONS", "*", ""},
	} {
		got, ok := set.Match(tt.method, tt.path)
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s %s: %q, want %q", tt.method, tt.path, got, tt.want)
		}
	}
}

func TestNewSetRefuses(t *testing.T) {
	for _, patterns := range [][]string{
		{"users"},
		{""},
		{"GET"},
		{"example.com/users"},
		{"/{a}{b}"},
		{"/{a...}/b"},
		{"/{"},
		{"/x", "/x"},
		{"/users/{id}", "/users/{name}"},
		{"/{a}/x", "/x/{b}"},
		{"GET /users/", "/users/{id}"},
		{"/{id}/{id}"},
	} {
		set, i, err := NewRoutes(patterns)
		if err == nil || set != nil || i != len(patterns)-1 {
			t.Errorf("NewSet(%q) = %v, %d, %v, want the last refused", patterns, set, i, err)
		} else if strings.Contains(err.Error(), "set.go") {
			t.Errorf("NewSet(%q): %v", patterns, err)
		}
	}
}

func TestUnder(t *testing.T) {
	set, _, err := NewRoutes([]string{"GET /Users/{id}", "/static/", "/items/{$}", "/items", "/a%2Fb", "/a/b", "/{$}", "/old;v=1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		options    Options
		path, want string
	}{
		{Options{}, "/users/1", ""},
		{Options{Case: true}, "/users/1", "GET /Users/{id}"},
		{Options{}, "/users/1/", ""},
		{Options{Case: true, TrailingSlash: true}, "/users/1/", "GET /Users/{id}"},
		{Options{}, "/static", ""},
		{Options{TrailingSlash: true}, "/static/", "/static/"},
		{Options{TrailingSlash: true}, "/static/x/", "/static/"},
		{Options{TrailingSlash: true}, "/items/", "/items"},
		{Options{TrailingSlash: true}, "/", "/{$}"},
		{Options{}, "/a%2fb", "/a%2Fb"},
		{Options{EscapedSlash: true}, "/a%2fb", "/a%2Fb"},
		{Options{EscapedSlash: true}, "/a/b", "/a%2Fb"},
		{Options{Parameters: true}, "/old;v=2", "/old;v=1"},
	} {
		under, _ := set.Under(tt.options)
		got, ok := under.Match("GET", String(tt.path, tt.options))
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("%+v %s: %q, want %q", tt.options, tt.path, got, tt.want)
		}
	}
	if _, double := set.Under(Options{EscapedSlash: true}); double != 5 {
		t.Errorf("the double is %d", double)
	}
	if _, double := set.Under(Options{TrailingSlash: true}); double != -1 {
		t.Errorf("the double is %d", double)
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	set, _, _ := NewRoutes(samplePatterns)
	if n := testing.AllocsPerRun(100, func() { set.Match("GET", "/users/1/orders/7") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Match chooses the same pattern as net/http's ServeMux.
func FuzzMatch(f *testing.F) {
	patterns := []string{}
	for _, p := range samplePatterns {
		if !strings.Contains(p, "caf") {
			patterns = append(patterns, p)
		}
	}
	set, _, err := NewRoutes(patterns)
	if err != nil {
		f.Fatal(err)
	}
	mux := http.NewServeMux()
	for _, p := range patterns {
		mux.Handle(p, http.NotFoundHandler())
	}
	f.Add("GET", "/users/1/orders/")
	f.Add("HEAD", "/users/me")
	f.Add("POST", "/a/b/c/d")
	f.Fuzz(func(t *testing.T, method, path string) {
		path = RoutePath(path)
		for _, c := range method {
			if c < 'A' || c > 'Z' {
				return
			}
		}
		if method == "" || method == http.MethodConnect || strings.ContainsAny(path, "%") || path == "*" {
			return
		}
		r := httptest.NewRequest(method, "/", nil)
		r.URL.Path = path
		_, want := mux.Handler(r)
		got, _ := set.Match(method, path)
		if got != want && !redirects(mux, r) {
			t.Errorf("%s %s: %q, net/http says %q", method, path, got, want)
		}
	})
}

// redirects reports whether net/http redirects the client to the path with a slash at its end,
// which is no match.
func redirects(mux *http.ServeMux, r *http.Request) bool {
	h, _ := mux.Handler(r)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code == http.StatusMovedPermanently || w.Code == http.StatusTemporaryRedirect || w.Code == http.StatusPermanentRedirect
}
