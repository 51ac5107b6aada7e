package rulefile

import (
	"fmt"
	"os"
	"path/filepath"

	"stint/internal/strictyaml"
	"stint/internal/text"
	"stint/rule"
	"stint/rule/list"
)

// lists reads `exempt` or `deny`.
func (f *fileCompiler) lists(v strictyaml.Value, exempt bool) {
	l := list.File{Domain: f.domain.Name, Name: f.domain.File, Open: f.Open, Path: f.path, OneLine: f.oneLine}
	l.Read(v, exempt)
	f.domain.Lists = append(f.domain.Lists, l.Lists...)
	f.errors = append(f.errors, l.Errors...)
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
