package rule

import (
	"fmt"

	"stint/internal/strictyaml"
	"stint/rule/action"
)

// http compiles the http section: how a plain request becomes descriptors.
func (f *fileCompiler) http(v strictyaml.Value) {
	words := strictyaml.Words{"rate_limits": func(v strictyaml.Value) {
		for _, element := range v.List() {
			f.httpLimit(element)
		}
	}}
	v.Object("http", words, func(word string) string {
		if word == "actions" {
			return "write rate_limits: and actions inside each of its elements"
		}
		return hint(word, nil)
	})
}

func (f *fileCompiler) httpLimit(v strictyaml.Value) {
	h := httpLimit{actions: new(action.List), line: v.Line()}
	said := false
	known := v.Object("an element of http.rate_limits", strictyaml.Words{"actions": func(v strictyaml.Value) {
		said = true
		h.actions = action.Read(v, f.open)
	}}, httpLimitHint)
	if known && !said {
		v.Fail("an element of http.rate_limits without actions", "add a line such as `actions: [{remote_address: {}}]`")
	}
	f.domain.http = append(f.domain.http, h)
}

func httpLimitHint(word string) string {
	switch word {
	case "stage", "disable_key", "hits_addend", "apply_on_stream_done":
		return word + " is not in this version; leave it out"
	case "limit":
		return "limits stand in the descriptors; actions only describe a request"
	}
	if action.Known(word) {
		return fmt.Sprintf("%s is an action: write `actions: [{%s: ...}]`", word, word)
	}
	return hint(word, nil)
}
