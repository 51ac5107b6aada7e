package list

import (
	"errors"
	"fmt"
	"net/http"

	"stint/internal/strictyaml"
	"stint/rule"
	"stint/rule/action"
	"stint/rule/rulefile/hints"
)

// File is the rule file that has the lists.
type File struct {
	Domain, Name string

	// Open reads the file that a value names; it reports that it cannot. Path returns its path.
	Open func(v strictyaml.Value) (data []byte, ok bool)
	Path func(v strictyaml.Value) string

	// OneLine warns of a line break in a text.
	OneLine func(line int, what, text string)

	// Lists are the elements that were read, and Errors the faults of files that they name.
	Lists  []*rule.Listed
	Errors []*rule.Error
}

// Read reads `exempt` or `deny`: lists of requests that are never or always denied.
func (f *File) Read(v strictyaml.Value, exempt bool) {
	if (v.IsList() || v.IsNull()) && len(v.List()) == 0 {
		v.Fail(v.Word()+" is empty", "add an element such as {cidrs: [192.0.2.0/24]}, or leave it out")
	}
	for i, element := range v.List() {
		f.listed(element, &rule.Listed{
			Name: fmt.Sprintf("%s/%s#%d", f.Domain, v.Word(), i+1), Exempt: exempt,
			Status: http.StatusForbidden, File: f.Name, Line: element.Line(),
		})
	}
}

// listed reads one element of `exempt` or `deny`.
func (f *File) listed(v strictyaml.Value, l *rule.Listed) {
	var cidrs, values *strictyaml.Value
	words := strictyaml.Words{
		"name":   func(v strictyaml.Value) { l.Name = v.NonEmpty() },
		"cidrs":  func(v strictyaml.Value) { cidrs = &v },
		"values": func(v strictyaml.Value) { values = &v },
		"header": func(v strictyaml.Value) { l.Header = action.HeaderName(v) },
		"key":    func(v strictyaml.Value) { l.Key = v.NonEmpty() },
	}
	what := "an element of exempt"
	if !l.Exempt {
		what = "an element of deny"
		words["status"] = func(v strictyaml.Value) {
			if l.Status = int(v.Uint(599)); v.IsInt() && l.Status != http.StatusForbidden && l.Status != http.StatusTooManyRequests {
				v.Fail(fmt.Sprintf("status: %s", v.Text()), "write 403 (the default) or 429")
			}
		}
	}
	if known := v.Object(what, words, hints.List); !known {
		return
	}
	f.OneLine(v.Line(), "the name of a list", l.Name)
	f.OneLine(v.Line(), "the key of a list", l.Key)
	switch {
	case (cidrs == nil) == (values == nil):
		v.Fail(what+" needs one list", "give it cidrs:, networks and addresses, or values: with header: or key:")
	case l.Header != "" && l.Key != "":
		v.Fail("header beside key", "keep one of the two, and give the other an element of its own")
	case values != nil && l.Header == "" && l.Key == "":
		v.Fail("values of nothing", "add header:, or key: for the values of a descriptor's entries; addresses stand under cidrs:")
	case cidrs != nil && l.Header != "":
		v.Fail("cidrs of a header", "leave header out: the client's address is found behind trusted proxies without it")
	case cidrs != nil:
		networks := new(networkSet)
		if l.Set = networks; l.Key == "" {
			l.Networks = networks
		}
		f.fill(*cidrs, networks)
	default:
		texts := make(textSet)
		l.Set = texts
		f.fill(*values, texts)
	}
	f.Lists = append(f.Lists, l)
}

// fill reads a list from the rule file, or from the file that it names.
func (f *File) fill(v strictyaml.Value, set listSet) {
	if !v.IsObject() {
		for _, element := range v.List() {
			if fault, ok := errors.AsType[*listFault](set.Add(element.Text())); ok {
				element.Fail(fault.Problem, fault.Hint)
			}
		}
		if (v.IsList() || v.IsNull()) && len(v.List()) == 0 {
			v.Fail(v.Word()+" is empty", "write a list, or {file: NAME}")
		}
		return
	}
	var file *strictyaml.Value
	if known := v.Object(v.Word(), strictyaml.Words{"file": func(v strictyaml.Value) { file = &v }}); !known {
		return
	}
	if file == nil || file.NonEmpty() == "" {
		if file == nil {
			v.Fail(v.Word()+" is empty", "write a list, or {file: NAME}")
		}
		return
	}
	f.fillFrom(*file, set)
}

// fillFrom reads a list from a file of its own.
func (f *File) fillFrom(v strictyaml.Value, set listSet) {
	data, ok := f.Open(v)
	if !ok {
		return
	}
	for _, fault := range readList(data, set) {
		f.Errors = append(f.Errors, &rule.Error{File: f.Path(v), Line: fault.Line, Problem: fault.Problem, Hint: fault.Hint})
	}
}
