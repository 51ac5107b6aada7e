package httpapi

import (
	"fmt"
	"net/http"
	"strings"
)

// OpenAPIPath is the path of the OpenAPI description on both listeners.
const OpenAPIPath = "/openapi.yaml"

// pagePath is one line of the text of GET /.
type pagePath struct{ Method, Path, Text string }

// welcome returns the text of GET /, which lists the paths of a listener.
func welcome(title string, paths []pagePath, rest string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "Stint, a rate limiter: %s\n\n", title)
	for _, p := range paths {
		fmt.Fprintf(&b, "  %-4s  %-15s  %s\n", p.Method, p.Path, p.Text)
	}
	fmt.Fprintf(&b, "\n%s\n", rest)
	return []byte(b.String())
}

// staticPages are static pages by path.
type staticPages map[string]staticPage

type staticPage struct {
	kind string
	body []byte
}

// serve answers GET and HEAD for one of the pages.
func (p staticPages) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", p[r.URL.Path].kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(p[r.URL.Path].body) // an error means that the client has disconnected
}

// newPages returns the static pages of a listener; openAPI may be nil.
func newPages(openAPI []byte, title string, paths []pagePath, rest string) staticPages {
	p := staticPages{}
	if openAPI != nil {
		p[OpenAPIPath] = staticPage{"application/yaml", openAPI}
		paths = append(paths, pagePath{"GET", OpenAPIPath, "all of it, for programs"})
	}
	p["/"] = staticPage{"text/plain; charset=utf-8", welcome(title, paths, rest)}
	return p
}
