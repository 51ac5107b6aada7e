package rulefile

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"stint/internal/strictyaml"
	"stint/internal/text"
	"stint/rule"
	"stint/rule/action"
	"stint/rule/rulefile/hints"
)

// lists reads `exempt` or `deny`: lists of requests that are never or always denied.
func (f *fileCompiler) lists(v strictyaml.Value, exempt bool) {
	if (v.IsList() || v.IsNull()) && len(v.List()) == 0 {
		v.Fail(v.Word()+" is empty", "add an element such as {cidrs: [192.0.2.0/24]}, or leave it out")
	}
	for i, element := range v.List() {
		f.listed(element, &rule.Listed{
			Name: fmt.Sprintf("%s/%s#%d", f.domain.Name, v.Word(), i+1), Exempt: exempt,
			Status: http.StatusForbidden, File: f.domain.File, Line: element.Line(),
		})
	}
}

// listed reads one element of `exempt` or `deny`.
func (f *fileCompiler) listed(v strictyaml.Value, l *rule.Listed) {
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
	f.oneLine(v.Line(), "the name of a list", l.Name)
	f.oneLine(v.Line(), "the key of a list", l.Key)
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
	f.domain.Lists = append(f.domain.Lists, l)
}

// fill reads a list from the rule file, or from the file that it names.
func (f *fileCompiler) fill(v strictyaml.Value, set listSet) {
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
func (f *fileCompiler) fillFrom(v strictyaml.Value, set listSet) {
	data, ok := f.Open(v)
	if !ok {
		return
	}
	for _, fault := range readList(data, set) {
		f.errors = append(f.errors, &rule.Error{File: f.path(v), Line: fault.Line, Problem: fault.Problem, Hint: fault.Hint})
	}
}

// path returns the path of the file that a value names.
func (f *fileCompiler) path(v strictyaml.Value) string {
	if name := v.Text(); filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(f.folder, v.Text())
}

// Open reads the file that a value names and makes it part of the table's hash. It implements
// action.Outside.
func (f *fileCompiler) Open(v strictyaml.Value) ([]byte, bool) {
	if f.folder == "" {
		v.Fail(fmt.Sprintf("%s names a file, where rules are read without their folder", v.Word()), "load the rules from their folder, or leave it out")
		return nil, false
	}
	name := f.path(v)
	data, err := os.ReadFile(name)
	if err != nil {
		f.errors = append(f.errors, &rule.Error{
			File: name, Problem: "cannot read it: " + text.Cause(err),
			Hint: fmt.Sprintf("it is named in %s; a name is relative to the folder of the rule file", rule.Place(f.domain.File, v.Line())),
			Err:  err,
		})
		return nil, false
	}
	f.files = append(f.files, Source{Name: name, Data: data})
	return data, true
}
