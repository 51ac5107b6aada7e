package action

import (
	"errors"
	"slices"
	"strings"

	"stint/internal/strictyaml"
)

// KeyRecords is implemented by Attributes that know the records of API keys. Without it no key
// identifies anybody.
type KeyRecords interface {
	// Identify returns the subject KEY=VALUE of an API key, and the name of its plan, "" for none. The
	// subject is "" if the key is not valid. The error means that this could not be found out.
	Identify(key string) (subject, plan string, err error)
}

// ErrKey is the error for a request whose API key is not valid, where the rules deny such requests.
var ErrKey = errors.New("the API key is not valid: it is mistyped, unknown, expired or revoked")

// recordedKey is an api_key with `from: records`: the records say whose it is.
type recordedKey struct {
	read    func(Attributes) (string, bool) // the text of the key
	key     string                          // the key of the subjects that it accepts
	planKey string                          // the key of the entry with the plan; "" for no such entry
	deny    bool                            // deny requests with keys that are not valid
}

// identify returns the subject and the plan of the key of a request. ok is false if it has no key,
// or if the records cannot tell.
func (r *recordedKey) identify(a Attributes) (subject, plan string, ok bool) {
	records, knows := a.(KeyRecords)
	if !knows {
		return "", "", false
	}
	text, ok := r.read(a)
	if !ok {
		return "", "", false
	}
	subject, plan, err := records.Identify(text)
	return subject, plan, err == nil
}

// value returns the value of the subject, if its key is the one that the action accepts.
func (r *recordedKey) value(a Attributes) (string, bool) {
	subject, _, _ := r.identify(a)
	key, value, _ := strings.Cut(subject, "=")
	return value, subject != "" && key == r.key
}

// appendPlan appends the entry with the plan of the subject, if it has one.
func (r *recordedKey) appendPlan(entries []Entry, a Attributes) []Entry {
	if _, plan, _ := r.identify(a); plan != "" {
		if _, ok := r.value(a); ok {
			return append(entries, Entry{Key: r.planKey, Value: plan})
		}
	}
	return entries
}

// String returns the options that a list shows after the key.
func (r *recordedKey) String() string {
	text := " from records"
	if r.planKey != "" {
		text += " after its plan as " + r.planKey
	}
	if r.deny {
		text += " or denied"
	}
	return text
}

// ReadsRecords reports whether an action needs the records of API keys.
func (l *List) ReadsRecords() bool {
	return anyRecord(l.actions, func(*recordedKey) bool { return true })
}

// DeniesKeys reports whether an action denies requests with API keys that are not valid.
func (l *List) DeniesKeys() bool {
	return anyRecord(l.actions, func(r *recordedKey) bool { return r.deny })
}

// Denies reports whether a request has an API key that is not valid, and an action denies it.
func (l *List) Denies(a Attributes) bool {
	return anyRecord(l.actions, func(r *recordedKey) bool {
		if !r.deny {
			return false
		}
		subject, _, known := r.identify(a)
		return known && subject == ""
	})
}

// anyRecord reports whether is returns true for the records of an action.
func anyRecord(actions []action, is func(*recordedKey) bool) bool {
	return slices.ContainsFunc(actions, func(a action) bool { return a.record != nil && is(a.record) || anyRecord(a.first, is) })
}

// defaultSubject is the key of the subjects that an api_key with `from: records` accepts.
const defaultSubject = "user"

// readRecorded reads the words that belong to `from: records`. from is nil without it.
func readRecorded(from *strictyaml.Value, said map[string]strictyaml.Value, r *recordedKey, a *action) {
	if from == nil {
		for _, word := range []string{"plan_key", "invalid"} {
			if v, ok := said[word]; ok {
				v.Fail(word+" without from: records", "add from: records, which looks the key up, or leave it out")
			}
		}
		a.value, a.hashed = hashed(r.read), true
		return
	}
	if _, known := from.OneOf("records"); !known {
		return
	}
	if a.key == a.name {
		a.key = defaultSubject
	}
	if v, ok := said["plan_key"]; ok && r.planKey == a.key {
		v.Fail("plan_key: "+r.planKey+" is the key of the subject", "give the plan another key, such as plan")
	}
	r.key, a.record, a.value, a.reads = a.key, r, r.value, "API key in the records"
}
