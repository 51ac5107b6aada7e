// Package pages serves the static pages of a listener: GET /, which lists its paths, and its OpenAPI
// description.
package pages

import (
	"fmt"
	"net/http"
	"strings"
)

// OpenAPIPath is the path of the OpenAPI description on all listeners.
const OpenAPIPath = "/openapi.yaml"

// Path is one line of the text of GET /.
type Path struct{ Method, Path, Text string }

// welcome returns the text of GET /, which lists the paths of a listener.
func welcome(title string, paths []Path, rest string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "Stint, a rate limiter: %s\n\n", title)
	for _, p := range paths {
		fmt.Fprintf(&b, "  %-4s  %-15s  %s\n", p.Method, p.Path, p.Text)
	}
	fmt.Fprintf(&b, "\n%s\n", rest)
	return []byte(b.String())
}

// Pages are static pages by path.
type Pages map[string]page

type page struct {
	kind string
	body []byte
}

// Serve answers GET and HEAD for one of the pages.
func (p Pages) Serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", p[r.URL.Path].kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(p[r.URL.Path].body) // an error means that the client has disconnected
}

// New returns the static pages of a listener; openAPI may be nil.
func New(openAPI []byte, title string, paths []Path, rest string) Pages {
	p := Pages{}
	if openAPI != nil {
		p[OpenAPIPath] = page{"application/yaml", openAPI}
		paths = append(paths, Path{"GET", OpenAPIPath, "all of it, for programs"})
	}
	p["/"] = page{"text/plain; charset=utf-8", welcome(title, paths, rest)}
	return p
}
