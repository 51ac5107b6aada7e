package settings

import (
	"errors"
	"fmt"
	"path/filepath"

	"stint/internal/config"
	"stint/internal/strictyaml"
	"stint/internal/strictyaml/parser"
	"stint/notify"
)

// File is the content of a config file.
type File struct {
	Given    []Given           // the settings
	Webhooks []notify.Receiver // which no flag and no variable can set

	webhooksAt string // place of webhooks; "" if there are none
}

// ParseFile parses a config file: YAML, one object of settings and their values. It refuses unknown
// and repeated words with their line and a hint. name is the name of the file, for errors and for
// the folder that paths in it are relative to.
func ParseFile(name string, data []byte) (*File, error) {
	doc := parser.Parse(data)
	p := configParser{name: name}
	words := strictyaml.Words{}
	settings := new(Config).Settings() // of an unused Config, to try values
	for i := range settings {
		s := &settings[i]
		words[s.Name] = func(v strictyaml.Value) { p.setting(s, v) }
	}
	words["webhooks"] = func(v strictyaml.Value) {
		p.webhooksAt = fmt.Sprintf("%s:%d", name, v.Line())
		p.receivers(v)
	}
	if len(doc.Faults()) == 0 {
		doc.Root().Object("a config file", words, hintForKey)
	}
	var errs []error
	for _, f := range doc.Faults() {
		errs = append(errs, &Error{Where: fmt.Sprintf("%s:%d", name, f.Line), Problem: f.Problem, Hint: f.Hint})
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &File{p.given, p.webhooks, p.webhooksAt}, nil
}

func hintForKey(word string) string {
	if word == "config" {
		return "a config file cannot name another one"
	}
	return ""
}

// configParser collects the values of a config file.
type configParser struct {
	name  string
	given []Given

	webhooks   []notify.Receiver
	webhooksAt string
}

// setting parses the value of a setting, or the values of a list.
func (p *configParser) setting(s *Setting, v strictyaml.Value) {
	values := []strictyaml.Value{v}
	if v.IsList() && s.Type() == "list" {
		if values = v.List(); len(values) == 0 {
			p.give(s, "", v) // an empty list empties the setting
		}
	}
	for _, one := range values {
		switch {
		case one.IsNull():
			one.Fail(s.Name+" has no value", `write a value, "" for an empty one, or remove the line`)
		case one.IsList() || one.IsObject():
			one.Fail(s.Name+" takes one plain value", "write "+s.Name+": VALUE")
		default:
			p.give(s, s.relativeTo(filepath.Dir(p.name), one.Text()), one)
		}
	}
}

func (p *configParser) give(s *Setting, text string, v strictyaml.Value) {
	if err := s.Set(text); err != nil {
		v.Fail(s.Name+": "+err.Error(), config.HintOf(err))
		return
	}
	p.given = append(p.given, Given{s.Name, text, fmt.Sprintf("%s:%d", p.name, v.Line())})
}
