package rulefile

import (
	"encoding/json"
	"fmt"
	"strings"

	"stint/internal/strictyaml"
	"stint/rule"
	"stint/rule/action"
	"stint/rule/rulefile/hints"
)

// http reads the http section: how an HTTP request becomes descriptors.
func (f *fileCompiler) http(v strictyaml.Value) {
	var limits []strictyaml.Value
	words := strictyaml.Words{
		"path":        func(v strictyaml.Value) { f.domain.Paths = action.ReadPaths(v) },
		"rate_limits": func(v strictyaml.Value) { limits = v.List() },
	}
	v.Object("http", words, func(word string) string {
		switch word {
		case "actions":
			return "write rate_limits: and actions inside each of its elements"
		case "fold", "unclear":
			return fmt.Sprintf("write path: {%s: ...}", word)
		}
		return hints.Elsewhere(word)
	})
	for _, element := range limits { // `path` is read by now
		f.httpLimit(element)
	}
	f.checkCookies()
}

// checkCookies reports device cookies with one name and different secrets: each would overwrite
// the other.
func (f *fileCompiler) checkCookies() {
	files := map[string]string{} // by cookie name
	var cookies []action.Cookie
	for i := range f.domain.HTTP {
		h := &f.domain.HTTP[i]
		cookies = h.Actions.Cookies(cookies[:0])
		for _, c := range cookies {
			if first, ok := files[c.Name]; ok && first != c.File {
				f.doc.Fail(h.Line, fmt.Sprintf("the cookie %s has its secrets in %s and in %s", c.Name, first, c.File),
					"name the same secret_file, or give one of the cookies another name")
			}
			files[c.Name] = c.File
		}
	}
}

func (f *fileCompiler) httpLimit(v strictyaml.Value) {
	h := rule.HTTPLimit{Actions: new(action.List), Line: v.Line()}
	said, costs := 0, 0
	actions := func(groups bool) func(strictyaml.Value) {
		return func(v strictyaml.Value) {
			said++
			h.Actions, h.Groups = action.Read(v, f.domain.Paths, f), groups
		}
	}
	known := v.Object("an element of http.rate_limits", strictyaml.Words{
		"actions":     actions(false),
		"groups":      actions(true),
		"cost":        func(v strictyaml.Value) { costs++; h.Cost = action.ReadCost(v, f.domain.Paths) },
		"hits_addend": func(v strictyaml.Value) { costs++; h.Cost = action.ReadHitsAddend(v) },
	}, httpLimitHint)
	if costs > 1 {
		v.Fail("cost and hits_addend both say the cost", "keep one of the two")
	}
	if said > 1 {
		v.Fail("actions beside groups", "give each an element of its own; all are decided as one")
	}
	if known && said == 0 {
		v.Fail("an element of http.rate_limits without actions", "add a line such as `actions: [{remote_address: {}}]`")
	}
	for _, part := range h.Actions.Parts() {
		f.oneLine(h.Line, "the key of an action", part.Key)
		f.oneLine(h.Line, "a value of an action", strings.Join(part.Values, ""))
	}
	if text, err := json.Marshal(v.Any()); err == nil { // fails only for values that JSON does not have, such as .inf
		h.Text = string(text)
	}
	f.domain.HTTP = append(f.domain.HTTP, h)
}

func httpLimitHint(word string) string {
	if action.Known(word) {
		return fmt.Sprintf("%s is an action: write `actions: [{%s: ...}]`", word, word)
	}
	return hints.HTTPLimit(word)
}
