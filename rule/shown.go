package rule

import (
	"bytes"
	"crypto/sha256"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"stint/rule/action"
)

// Shown returns the entries of a key of the rule for people: the keys of its path, and those values that
// may be shown, see [Level.Show]. Other values are empty. key ends with what [Rule.AppendKeyed]
// returned; anything may come before. If it does not, no value is shown but those that stand in the rule.
func (r *Rule) Shown(key []byte) []Entry {
	entries := make([]Entry, len(r.Path))
	for i, l := range r.Path {
		entries[i].Key = l.Key
		if !l.Varies() && !slices.Contains(r.secrets, i) {
			entries[i].Value = l.Value
		}
	}
	values, ok := r.valuesOf(key)
	if !ok {
		return entries
	}
	for n, i := range r.varies {
		if r.Path[i].Show && !slices.Contains(r.secrets, i) {
			entries[i].Value = values[n]
		}
	}
	return entries
}

// valuesOf returns the values in a key, empty for those of which it has a hash. ok is false if the key
// is not one of the rule.
func (r *Rule) valuesOf(key []byte) (values []string, ok bool) {
	at := bytes.Index(key, []byte(r.identity))
	if at < 0 || r.identity == "" {
		return nil, false
	}
	rest := key[at+len(r.identity):]
	for range r.varies {
		if len(rest) > sha256.Size && (rest[0] == '#' || rest[0] == '*') { // a hash
			values, rest = append(values, ""), rest[1+sha256.Size:]
			continue
		}
		digits, text, found := bytes.Cut(rest, []byte(":"))
		n, err := strconv.ParseUint(string(digits), 10, 16)
		if !found || err != nil || n > uint64(len(text)) {
			return nil, false
		}
		values, rest = append(values, string(text[:n])), text[n:]
	}
	return values, len(rest) == 0
}

// credential matches the names of entries, headers and parameters whose values are secrets.
var credential = regexp.MustCompile(`(?i)(^|[-_.])(api[-_]?key|authori[sz]ation|auth|token|bearer|basic|cookie|password|passwd|secret|session|sid|jwt|signature)s?($|[-_.])`)

// CheckShown returns a fault for each entry that is to be shown and is a secret: by its name, or because
// an action of the domain makes it of one.
func (t *Table) CheckShown() []*Error {
	var faults []*Error
	for _, r := range t.rules {
		d := t.byName[r.Domain]
		for _, l := range r.Path {
			if l.Show && (credential.MatchString(l.Key) || d.makesSecret(l.Key)) {
				faults = append(faults, &Error{
					File: r.File, Line: r.Line, Problem: "show: true on " + l.Key + ", whose values are secrets",
					Hint: "leave show out: keys are shown as hashes, and a search hashes what is typed",
				})
			}
		}
	}
	return faults
}

// makesSecret reports whether an action makes an entry with this key of a secret.
func (d *Domain) makesSecret(key string) bool {
	var any func(parts []action.Part) bool
	any = func(parts []action.Part) bool {
		return slices.ContainsFunc(parts, func(p action.Part) bool {
			_, source, _ := strings.Cut(p.Reads, " ")
			plain := p.Name == "request_headers" || p.Name == "query_parameters"
			return p.Key == key && plain && credential.MatchString(source) || any(p.First)
		})
	}
	return d.HoldsSecrets(key) || slices.ContainsFunc(d.http, func(h HTTPLimit) bool { return any(h.Actions.Parts()) })
}
