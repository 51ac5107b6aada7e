package book

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"stint"
	"stint/internal/strictyaml"
	"stint/internal/text"
	"stint/rule/catalog"
)

// The columns of CSV in their order, which are the fields of JSON as well.
const (
	id = iota
	uid
	url
	period
	requests
	algorithm
	burst
	domain
	policy
	fields
)

// required are those that no rule goes without where they are named. No uid is everybody.
// Time and requests may be empty, in a rule that is unlimited.
var required = [...]int{id, url, period, requests}

var names = [fields]string{"id", "uid", "url", "time", "requests", "algorithm", "burst", "domain", "policy"}

// set puts the text of a column into a rule. The problem is "" where it can be.
func set(r *catalog.Rule, field int, text string) (problem, hint string) {
	switch field {
	case id:
		r.ID = text
	case uid:
		r.UID = text
	case url:
		r.URL = text
	case period:
		r.Time = text
	case requests:
		if text != "" { // see needed
			r.Requests, problem, hint = number(field, text)
		}
	case algorithm:
		r.Algorithm = text
	case burst:
		if text != "" { // empty: the default
			r.Burst, problem, hint = number(field, text)
		}
	case domain:
		r.Domain = text
	case policy:
		r.Policy = text
	}
	return problem, hint
}

// requiredNames lists the fields that no rule goes without.
func requiredNames() string {
	var list []string
	for _, field := range required {
		list = append(list, names[field])
	}
	return strings.Join(list, ", ")
}

// needed says what a rule is missing that has no number of requests. Only one that is
// unlimited goes without.
func needed(r *catalog.Rule, has bool) (problem, hint string) {
	if has || r.Algorithm == stint.Unlimited.String() {
		return "", ""
	}
	return "requests: missing", "write how many may pass, digits only; 0 denies every request"
}

// number reads a whole number.
func number(field int, written string) (n uint64, problem, hint string) {
	n, err := strconv.ParseUint(written, 10, 64)
	switch {
	case err == nil:
		return n, "", ""
	case strings.Trim(written, "0123456789") == "":
		return 0, fmt.Sprintf("%s: %s is too large", names[field], text.Quote(written)), "write a number below 4294967296"
	}
	return 0, fmt.Sprintf("%s: %s is no whole number", names[field], text.Quote(written)), "write digits only, without sign, fraction, unit or commas between them"
}

// fieldOf returns the field of that name, in any case; -1 if there is none.
func fieldOf(name string) int {
	return slices.IndexFunc(names[:], func(known string) bool { return strings.EqualFold(known, name) })
}

// unknown says that a name is none of the fields.
func unknown(what, name string) (problem, hint string) {
	hint = "known are " + strings.Join(names[:], ", ")
	if near := strictyaml.Nearest(name, names[:]); near != "" {
		hint = "is " + near + " meant? " + "K" + hint[1:]
	}
	return "unknown " + what + " " + text.Quote(name), hint
}
