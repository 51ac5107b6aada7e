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

// The columns of CSV in their default order; they are also the fields of JSON.
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

// required are the fields that a header or an object must have. A missing uid means all users. Time
// and requests may be empty in an unlimited rule.
var required = [...]int{id, url, period, requests}

var names = [fields]string{"id", "uid", "url", "time", "requests", "algorithm", "burst", "domain", "policy"}

// set sets a field of a rule from the text of a column. problem is "" on success.
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
		if text != "" { // empty means the default
			r.Burst, problem, hint = number(field, text)
		}
	case domain:
		r.Domain = text
	case policy:
		r.Policy = text
	}
	return problem, hint
}

// requiredNames returns the names of the required fields.
func requiredNames() string {
	var list []string
	for _, field := range required {
		list = append(list, names[field])
	}
	return strings.Join(list, ", ")
}

// needed reports a missing number of requests; only unlimited rules may omit it.
func needed(r *catalog.Rule, has bool) (problem, hint string) {
	if has || r.Algorithm == stint.Unlimited.String() {
		return "", ""
	}
	return "requests: missing", "write how many may pass, digits only; 0 denies every request"
}

// number parses a whole number.
func number(field int, written string) (n uint64, problem, hint string) {
	n, err := strconv.ParseUint(written, 10, 64)
	switch {
	case err == nil:
		return n, "", ""
	case strings.Trim(written, "0123456789") == "":
		return 0, fmt.Sprintf("%s: %s is too large", names[field], text.Quote(written)), "write a number below 4294967296"
	}
	return 0, fmt.Sprintf("%s: %s is not a whole number", names[field], text.Quote(written)), "write digits only, without sign, fraction, unit or commas between them"
}

// fieldOf returns the field with this name, ignoring case; -1 if there is none.
func fieldOf(name string) int {
	return slices.IndexFunc(names[:], func(known string) bool { return strings.EqualFold(known, name) })
}

// unknown returns the fault for an unknown field name.
func unknown(what, name string) (problem, hint string) {
	hint = "known are " + strings.Join(names[:], ", ")
	if near := strictyaml.Nearest(name, names[:]); near != "" {
		hint = "is " + near + " meant? " + "K" + hint[1:]
	}
	return "unknown " + what + " " + text.Quote(name), hint
}
