package jsonbody

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"stint/internal/text"
)

const (
	// DefaultLimit is the number of elements of a page if the request does not say it.
	DefaultLimit = 100

	// MaxLimit is the most elements of a page.
	MaxLimit = 1000

	// maxParameters is the maximum number of query parameters. Each takes much memory, even an
	// empty one.
	maxParameters = 32

	// ImportTime is the timeout of an import or an export: for its body and its answer.
	ImportTime = 10 * time.Minute

	// FormatHint says which media types an import may have.
	FormatHint = "send text/csv or application/jsonl"
)

// NoSuch returns the fault of an unknown path or object.
func NoSuch(problem, hint string) *Fault {
	return &Fault{Status: http.StatusNotFound, Code: NotFound, Problem: problem, Hint: hint}
}

// RefuseMethod answers a method that a path does not support.
func RefuseMethod(w http.ResponseWriter, r *http.Request, allowed ...string) {
	list := strings.Join(allowed, ", ")
	w.Header().Set("Allow", list)
	(&Fault{
		Status: http.StatusMethodNotAllowed, Code: Method,
		Problem: text.Quote(r.Method) + " is not a method of this path", Hint: "use " + list,
	}).Write(w)
}

// WrongType returns the fault of a body of another media type.
func WrongType(given, hint string) *Fault {
	problem := "a body of the type " + text.Quote(given)
	if given == "" {
		problem = "a body without a type"
	}
	return &Fault{Status: http.StatusUnsupportedMediaType, Code: MediaType, Problem: problem, Hint: hint}
}

// Query reads the parameters of a request, none of which may be repeated or longer than maxText
// bytes.
func Query(r *http.Request, maxText int, known ...string) (url.Values, *Fault) {
	hint := "known here are " + strings.Join(known, ", ")
	if len(known) == 0 {
		hint = "this path has none"
	}
	if strings.Count(r.URL.RawQuery, "&") >= maxParameters {
		return nil, Bad("", fmt.Sprintf("more than %d parameters", maxParameters), hint)
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, Bad("", "the query cannot be read", "write name=value, with & between them and escapes such as %20 within")
	}
	for name, values := range query {
		switch {
		case !slices.Contains(known, name):
			return nil, Bad("", "unknown parameter "+text.Quote(name), hint)
		case len(values) > 1:
			return nil, Bad(name, "given twice", "give it once")
		case len(values[0]) > maxText:
			return nil, Bad(name, fmt.Sprintf("longer than %d bytes", maxText), "nothing here has so long a name")
		}
	}
	return query, nil
}

// PageLimit returns the number of elements of a page: the parameter limit, or DefaultLimit. what are the
// elements, such as "rules".
func PageLimit(query url.Values, what string) (int, *Fault) {
	if !query.Has("limit") {
		return DefaultLimit, nil
	}
	n, err := strconv.Atoi(query.Get("limit"))
	if err != nil || n < 1 || n > MaxLimit {
		return 0, Bad("limit", text.Quote(query.Get("limit"))+" is not a valid number of "+what, fmt.Sprintf("write a whole number from 1 to %d", MaxLimit))
	}
	return n, nil
}

// tags matches a list of entity tags, or a star.
var tags = regexp.MustCompile(`^\s*(\*|(W/)?"[^"]*"(\s*,\s*(W/)?"[^"]*")*)\s*$`)

// CheckTags checks the headers If-Match and If-None-Match of a change. tagOf is the request whose
// ETag a caller can send.
func CheckTags(match, noneMatch []string, tagOf string) *Fault {
	for _, list := range match {
		if !tags.MatchString(list) {
			return Bad("If-Match", "neither a star nor entity tags", "send the ETag of GET "+tagOf+" as it is, or leave the header out")
		}
	}
	for _, list := range noneMatch {
		if strings.TrimSpace(list) != "*" {
			return Bad("If-None-Match", "not a star", "send * where there must be none yet, or leave the header out")
		}
	}
	return nil
}

// Tags returns the entity tags of lists, or a star as it is.
func Tags(lists []string) []string {
	var all []string
	for _, list := range lists {
		for item := range strings.SplitSeq(list, ",") {
			all = append(all, strings.TrimSpace(item))
		}
	}
	return all
}

// jsonLines are the media types of JSON Lines.
var jsonLines = []string{
	"application/jsonl", "application/x-ndjson", "application/x-jsonlines", "application/json-lines",
	"application/jsonlines", "application/ndjson", "application/x-json-stream",
}

// ImportType returns whether the body of an import is CSV; otherwise it is JSON Lines.
func ImportType(r *http.Request) (csv bool, f *Fault) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case kind == "text/csv":
		return true, nil
	case slices.Contains(jsonLines, kind):
		return false, nil
	}
	return false, WrongType(kind, FormatHint)
}

// ExtendDeadlines gives a request until ImportTime from now.
func ExtendDeadlines(w http.ResponseWriter) {
	until := time.Now().Add(ImportTime)
	control := http.NewResponseController(w)
	// An error means that the connection has no deadlines to extend.
	_, _ = control.SetReadDeadline(until), control.SetWriteDeadline(until)
}
