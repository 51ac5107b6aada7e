package logging

import (
	"net/http"
	"strings"
)

// Route returns the route of a request for the log: the pattern by which net/http's mux found its handler,
// else the longest of routes that its path is, or lies below, then with /... for the rest. Other paths are
// "(unknown)". A line of the log must have no more of a path, and nothing of a query: both may hold a key, a
// token or the name of a person.
func Route(r *http.Request, routes ...string) string {
	pattern := r.Pattern
	if i := strings.LastIndexByte(pattern, ' '); i >= 0 {
		pattern = pattern[i+1:]
	}
	if pattern != "" && pattern != "/" {
		return pattern
	}
	longest := ""
	for _, route := range routes {
		rest, found := strings.CutPrefix(r.URL.Path, route)
		if found && len(route) > len(longest) && (rest == "" || rest[0] == '/') {
			longest = route
		}
	}
	switch {
	case longest == "":
		return "(unknown)"
	case len(longest) < len(r.URL.Path):
		longest += "/..."
	}
	return longest
}
