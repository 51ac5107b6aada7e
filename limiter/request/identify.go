package request

import "errors"

// IdentifyFunc returns the subject KEY=VALUE of an API key, and the name of its plan, "" for none. The
// subject is "" if the key is not valid. The error means that this could not be found out.
type IdentifyFunc func(key string) (subject, plan string, err error)

// Identifier implements rule.KeyRecords for the attributes of one request. It remembers the last
// answer, since several actions of a rule file may read the same key. The zero Identifier knows no
// records, so no key identifies anybody.
type Identifier struct {
	by            IdentifyFunc
	key           string
	subject, plan string
	err           error
	known         bool
}

// errNoRecords is the error of an Identifier without records.
var errNoRecords = errors.New("there are no records of API keys")

// NewIdentifier returns an Identifier that asks by; nil knows no records.
func NewIdentifier(by IdentifyFunc) Identifier { return Identifier{by: by} }

// Identify returns the subject and the plan of an API key.
func (i *Identifier) Identify(key string) (subject, plan string, err error) {
	if i.by == nil {
		return "", "", errNoRecords
	}
	if !i.known || i.key != key {
		i.subject, i.plan, i.err = i.by(key)
		i.key, i.known = key, true
	}
	return i.subject, i.plan, i.err
}
