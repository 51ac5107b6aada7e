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
	said, costs := false, 0
	known := v.Object("an element of http.rate_limits", strictyaml.Words{
		"actions": func(v strictyaml.Value) {
			said = true
			h.actions = action.Read(v, f.open)
		},
		"cost":        func(v strictyaml.Value) { costs++; h.cost = action.ReadCost(v) },
		"hits_addend": func(v strictyaml.Value) { costs++; h.cost = action.ReadHitsAddend(v) },
	}, httpLimitHint)
	if costs > 1 {
		v.Fail("cost and hits_addend both say the cost", "keep one of the two")
	}
	if known && !said {
		v.Fail("an element of http.rate_limits without actions", "add a line such as `actions: [{remote_address: {}}]`")
	}
	f.domain.http = append(f.domain.http, h)
}

func httpLimitHint(word string) string {
	switch word {
	case "stage", "disable_key", "apply_on_stream_done":
		return word + " is not in this version; leave it out"
	case "limit":
		return "limits stand in the descriptors; actions only describe a request"
	}
	if action.Known(word) {
		return fmt.Sprintf("%s is an action: write `actions: [{%s: ...}]`", word, word)
	}
	return hint(word, nil)
}
