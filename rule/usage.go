package rule

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"stint"
	"stint/internal/text"
	"stint/internal/transaction"
)

// MaxUsage is the most periods that `usage` keeps, and MaxNotify the most thresholds of `notify`.
const (
	MaxUsage  = transaction.MaxUsage
	MaxNotify = 16
)

// Usage is what the store keeps of the use of a rule's keys: the words `usage`, `notify` and `rollover`.
type Usage struct {
	Periods int     // before the current one
	Notify  []uint8 // percentages of the limit, ascending

	// Rollover is how many unused units of a period may be used in the next one at most; 0: none.
	Rollover uint32
}

// String returns usage and notify in the words of a rule file.
func (u *Usage) String() string {
	var words []string
	if u.Periods > 0 {
		words = append(words, fmt.Sprintf("usage of %d periods", u.Periods))
	}
	if len(u.Notify) > 0 {
		words = append(words, "notify at "+strings.Join(u.percentages(), " "))
	}
	return strings.Join(words, ", ")
}

func (u *Usage) percentages() (all []string) {
	for _, percent := range u.Notify {
		all = append(all, fmt.Sprintf("%d%%", percent))
	}
	return all
}

// Metered returns the rules with usage or notify, and after them those of plans that have it. All rules
// of one place have one domain and name. They need a store that keeps histories: in memory, or Redis.
func (t *Table) Metered() []*Rule {
	return slices.DeleteFunc(t.All(), func(r *Rule) bool { return r.Usage == nil })
}

// Durable returns the rules with durable, and after them those of plans that have it. All rules of one
// place have one domain and name. They need a store that can save each take before it is answered.
func (t *Table) Durable() (all []*Rule) {
	t.each(func(r *Rule) {
		if r.IsDurable() {
			all = append(all, r)
		}
	})
	return all
}

// IsDurable reports whether the rule has durable. A rule that takes its limit from plans has the answer of one of them.
func (r *Rule) IsDurable() bool { return r.Terms != nil && r.Terms.Durable }

// RollsOver reports whether the rule has rollover.
func (r *Rule) RollsOver() bool { return r.Usage != nil && r.Usage.Rollover > 0 }

// Meter names the key of a take in the history of its use, for a rule that keeps any or a subject with grants:
// the subject is the rule's last entry, with its plan, "" for none. A limit of a plan has its name there.
// Thresholds are percentages of the limit that people see. entries match the rule. grants are those of the subject
// and the limit, as they are used; nil: there are none.
func (r *Rule) Meter(how *stint.Handling, entries []Entry, secret *KeySecret, plan string, grants []transaction.Grant) {
	if r.Usage == nil && grants == nil || len(r.Path) == 0 {
		return
	}
	m := create(&how.Meter)
	if m.Grants = grants; r.Usage != nil {
		m.Rollover = int64(r.Usage.Rollover)
	}
	m.Subject, m.Plan, m.Of = r.Subject(entries, secret), plan, r.Limit.Capacity()
	if r.Plan != nil {
		m.Limit = r.Plan.Limit
	}
}

// glob reports whether a pattern matches a value.
func glob(pattern, value string) bool {
	g := text.NewGlob(pattern)
	return g.Matches(value)
}

// create sets a pointer to a new value and returns it. So nobody has to repeat a type without a name.
func create[T any](at **T) *T {
	*at = new(T)
	return *at
}

// Subject returns whom a key of the rule counts: KEY=VALUE of the rule's last entry. A value of more
// than 256 bytes is replaced by its SHA-256, and one that is the hash of a secret by its protected form.
// Values that share a counter have their pattern.
func (r *Rule) Subject(entries []Entry, secret *KeySecret) string {
	i := len(r.Path) - 1
	l := r.Path[i]
	value := l.Value
	if l.Varies() {
		value = entries[i].Value
	}
	switch {
	case secret != nil && slices.Contains(r.secrets, i):
		value = "*" + hex.EncodeToString(secret.Append(nil, value)[1:])
	case len(value) > longValue:
		sum := sha256.Sum256([]byte(value))
		value = "#" + hex.EncodeToString(sum[:])
	}
	return l.Key + "=" + value
}

// EntriesOf returns the entries that match the rule for a subject, such as user=42. It returns false if
// the rule counts others, or depends on an entry that the subject does not tell.
func (r *Rule) EntriesOf(key, value string) ([]Entry, bool) {
	entries := make([]Entry, len(r.Path))
	for i, l := range r.Path {
		entries[i] = Entry{Key: l.Key, Value: l.Value}
		if i == len(r.Path)-1 {
			entries[i].Value = value
			return entries, l.Key == key && (l.Value == "" || l.Value == value || l.Wildcard && glob(l.Value, value))
		}
		if l.Varies() {
			return nil, false
		}
	}
	return nil, false
}
