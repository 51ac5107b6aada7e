package book

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"stint/internal/strictyaml"
	"stint/internal/strictyaml/parser"
	"stint/internal/text"
	"stint/rule/catalog"
)

// maxConfigs is the maximum size of a ratelimiter4j file in bytes, because YAML is read as a whole.
const maxConfigs = 64 << 20

// readConfigs reads a file of ratelimiter4j, YAML or JSON:
//
//	configs:
//	  - appId: app-1
//	    limits:
//	      - {api: /v1/user, limit: 50}
//	      - {api: "/v1/orders/{id}", limit: 5, unit: 60}
//
// An application is a user: its rules have the uid of that name. A rule applies to its path and
// everything below, to any method, with one bucket; of several rules the deepest path applies. {id}
// matches a segment of digits, and {name:regex} a segment that matches the expression. The ID of a
// rule is APPID:API. The unit is a number of seconds, or a time as in the other formats; the default
// is one second.
func readConfigs(c *collector, r io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(r, maxConfigs+1))
	if err != nil {
		return err
	}
	if len(data) > maxConfigs {
		c.fail(0, fmt.Sprintf("larger than %d MiB", maxConfigs>>20), "write so many rules as .csv or .jsonl")
		return nil
	}
	doc := parser.Parse(data)
	var found []config
	if len(doc.Faults()) == 0 {
		doc.Root().Object("a file of ratelimiter4j", strictyaml.Words{
			"configs": func(v strictyaml.Value) {
				for _, one := range v.List() {
					found = append(found, readConfig(one)...)
				}
			},
		})
	}
	doc.RefuseOctals()
	if len(doc.Faults()) == 0 && doc.Empty() {
		doc.Fail(1, "no configs", "write configs: and below it - appId: NAME")
	}
	for _, f := range doc.Faults() {
		c.fail(f.Line, f.Problem, f.Hint)
	}
	if len(doc.Faults()) > 0 {
		return nil
	}
	for _, one := range found {
		if err := c.rule(one.line, one.rule); err != nil {
			return err
		}
	}
	return nil
}

// config is a rule of a ratelimiter4j file.
type config struct {
	line int
	api  string
	rule catalog.Rule
}

// readConfig reads the rules of one application.
func readConfig(v strictyaml.Value) []config {
	app, appAt := "", v
	var found []config
	known := v.Object("a config", strictyaml.Words{
		"appId": func(v strictyaml.Value) { app, appAt = v.NonEmpty(), v },
		"limits": func(v strictyaml.Value) {
			for _, one := range v.List() {
				found = append(found, readLimit(one))
			}
		},
	})
	if known && app == "" && appAt == v {
		v.Fail("no appId", "write the application of these limits, such as appId: app-1")
	}
	for i := range found {
		r := &found[i].rule
		r.UID, r.ID = user(app), app+":"+found[i].api
	}
	return found
}

// readLimit reads one rule.
func readLimit(v strictyaml.Value) config {
	r := catalog.Rule{Time: "1s"}
	api, limited := "", false
	known := v.Object("a limit", strictyaml.Words{
		"api": func(v strictyaml.Value) {
			if api = v.NonEmpty(); api != "" && api[0] != '/' {
				v.Fail("api: "+text.Quote(api)+" does not begin with a slash", "write the path alone, such as /v1/user")
			}
		},
		"limit": func(v strictyaml.Value) { r.Requests, limited = v.Uint(1<<32-1), true },
		"unit":  func(v strictyaml.Value) { r.Time = unit(v) },
	})
	if known && api == "" {
		v.Fail("no api", "write the path that is limited, such as api: /v1/user")
	}
	if known && !limited {
		v.Fail("no limit", "write how many requests may pass, such as limit: 50")
	}
	r.URL = below(api)
	return config{v.Line(), api, r}
}

// unit reads the period of a limit, which ratelimiter4j itself parses but ignores.
func unit(v strictyaml.Value) string {
	written := v.NonEmpty()
	if strings.Trim(written, "0123456789") != "" {
		return written
	}
	if v.IsInt() {
		written = strconv.FormatUint(v.Uint(math.MaxUint64), 10)
	}
	if strings.Trim(written, "0") == "" {
		v.Fail("unit: "+text.Quote(written)+" is not a valid time", "write a whole number of seconds, or a time such as minute or 10s")
	}
	return written + "s"
}

// below returns the pattern for a path and everything below it. In a ratelimiter4j path {name}
// matches digits only.
func below(api string) string {
	segments := strings.Split(strings.TrimRight(api, "/"), "/")
	for i, s := range segments {
		if !strings.HasPrefix(s, "{") || !strings.HasSuffix(s, "}") {
			continue
		}
		name, class, is := strings.Cut(s[1:len(s)-1], ":")
		if !is {
			class = "[0-9]+"
		}
		if slices.ContainsFunc(segments[:i], func(before string) bool { return strings.HasPrefix(before, "{"+name+":") }) {
			name += strconv.Itoa(i) // a name must be unique in our patterns
		}
		segments[i] = "{" + name + ":" + class + "}"
	}
	if len(segments) == 1 {
		return "/"
	}
	return strings.Join(segments, "/") + "{/...}"
}

// user returns the uid of a user with any name.
func user(name string) string {
	if name == "*" || name == "all" || strings.HasPrefix(name, "plan:") || strings.HasPrefix(name, "user:") {
		return "user:" + name
	}
	return name
}
