package catalog

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"stint"
	"stint/internal/text"
	"stint/rule"
)

// Rule is one rule per API, as written in a row of a file or in the body of a PUT.
// `7,all,/v1/orders/{id},minute,5` denies the sixth GET of /v1/orders/7 or
// /v1/orders/8 within a minute, whoever asks: the pattern has one bucket for all of
// its values.
//
// # Which rules apply
//
// A request is described by the entry path and, if they are known, the entries method,
// user and plan. Two groups of rules apply to it:
//
//   - For all users together, the rules with uid `all` that have the most specific
//     matching url.
//   - For this user, of all other rules with a matching uid, those with the most
//     specific matching url. If several uids have rules for that url, rules of the
//     user name come before rules of the plan, and these before rules of uid `*`.
//
// Several rules of the same url and uid apply together if their times differ, such as
// 10 a second and 100 a minute. Two with the same time are refused.
//
// # Which url is the most specific
//
// A url is compared segment by segment from the left: a literal comes before {name:regex},
// this before {name}, and this before wildcards for all following segments: {name...}
// and a trailing slash before {/...}. Of two equal patterns, the one with a method comes
// first. If net/http's ServeMux accepts two patterns, it makes the same choice; if it
// refuses them as conflicting, this order decides.
//
// The zero Rule is invalid.
type Rule struct {
	// ID is the name of the rule. Users see it, and keys in the store begin with it. It is unique
	// in the catalog and has 1 to 255 bytes.
	ID string

	// UID is the user that the rule applies to:
	//
	//	all, or empty   all users together, in one bucket
	//	*               each user without a rule of his own, in a bucket of his own
	//	plan:gold       each user of that plan, in a bucket of his own
	//	42              the user 42
	//	user:all        the user named all; write user: before every name that has a
	//	                meaning here or begins with user:
	//
	// At most 255 bytes.
	UID string

	// URL is a pattern of net/http's ServeMux without a host: an optional method and a
	// blank, literal segments, {name} for one segment, {name...} or a trailing slash for
	// all following segments, {$} for the end. GET includes HEAD. In addition,
	//
	//	{name:regex}       is one segment that matches as a whole (RE2)
	//	/v1/users{/...}    is /v1/users and everything below it
	//
	// Paths and patterns are normalized before they are compared. At most 4,096 bytes and
	// 64 segments.
	URL string

	// Time is the period: sec, second, min, minute, hour, day, week, month (30 days) or year (365
	// days), or a duration such as 15m, 1h30m or 2d.
	Time string

	// Requests is the number of requests that may pass in that time. 0 denies every request.
	Requests uint64

	// Algorithm is the name of an algorithm, such as token_bucket; "" is fixed_window. An unlimited
	// rule has neither Time nor Requests; it allows requests that a less specific rule would limit.
	Algorithm string

	// Burst is the burst of a token_bucket (0: Requests) or leaky_bucket (0: no request may wait).
	Burst uint64

	// Domain is the domain of the rule; "" is the default of the catalog.
	Domain string

	// Policy has words separated by blanks or +. allow or deny (default allow) is the answer when
	// the store is away. shadow counts and denies nobody. soft:10% allows that much more than the
	// limit, marked as over.
	Policy string
}

// Error describes a fault in a rule.
type Error struct {
	ID      string // ID of the rule; "" if the ID itself is faulty
	Field   string // id, uid, url, time, requests, algorithm, burst, domain or policy; "" for the whole rule
	Problem string
	Hint    string // how to correct the fault
}

// Error returns the problem, and the hint in a second line.
func (e *Error) Error() string {
	text := "rule"
	if e.ID != "" {
		text += " " + e.ID
	}
	if e.Field != "" {
		text += ": " + e.Field
	}
	text += ": " + e.Problem
	if e.Hint != "" {
		text += "\n  hint: " + e.Hint
	}
	return text
}

// The maximum lengths of the texts of a rule, in bytes.
const (
	MaxID     = 255
	MaxUID    = 255
	MaxURL    = 4096
	MaxDomain = 255
)

// Check returns nil if the rule is valid by itself, otherwise an [*Error]. It does not check for
// conflicts with other rules of a catalog.
func (r *Rule) Check() error {
	var p pattern
	if err := r.checkTexts(); err != nil {
		return err
	}
	if err := p.parse(r.URL); err != nil {
		return r.fault("url", err)
	}
	if _, err := newTerms(r); err != nil {
		return err
	}
	return nil
}

// checkTexts checks the texts that are compared literally.
func (r *Rule) checkTexts() error {
	if r.ID == "" {
		return &Error{Field: "id", Problem: "a rule without an id", Hint: "give each rule an id that no other has, such as a number"}
	}
	for _, t := range []struct {
		field, text string
		most        int
	}{{"id", r.ID, MaxID}, {"uid", r.UID, MaxUID}, {"url", r.URL, MaxURL}, {"domain", r.Domain, MaxDomain}} {
		if len(t.text) > t.most {
			return &Error{r.ID[:min(len(r.ID), MaxID)], t.field, fmt.Sprintf("%d bytes are too long", len(t.text)), fmt.Sprintf("write at most %d bytes", t.most)}
		}
		if i := strings.IndexFunc(t.text, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\uFFFD' }); i >= 0 {
			return &Error{r.ID, t.field, fmt.Sprintf("%q contains a control character or is not UTF-8", t.text), "remove it"}
		}
	}
	if _, name := whose(r.UID); name == "" && r.UID != "" {
		return &Error{r.ID, "uid", fmt.Sprintf("%q has no name", r.UID), "write a name after the colon, * for each user, or all"}
	}
	return nil
}

// clone returns a copy of the rule with cloned texts.
func (r *Rule) clone() Rule {
	own := *r
	for _, t := range []*string{&own.ID, &own.UID, &own.URL, &own.Time, &own.Algorithm, &own.Domain, &own.Policy} {
		*t = strings.Clone(*t)
	}
	return own
}

func (r *Rule) fault(field string, err error) *Error {
	e := &Error{ID: r.ID, Field: field, Problem: err.Error()}
	if h, ok := errors.AsType[*hinted](err); ok {
		e.Problem, e.Hint = h.problem, h.hint
	}
	return e
}

// hinted is a fault without the ID and field of the rule.
type hinted struct{ problem, hint string }

func (h *hinted) Error() string { return h.problem }

// who is the kind of a uid.
type who uint8

const (
	everybody who = iota // uid all
	each                 // uid *
	plan
	user
)

// The prefixes of uids.
const (
	planWord = "plan:"
	userWord = "user:"
)

// whose returns the kind of a uid, and the name of the plan or user. For the other kinds the name
// is the uid itself.
func whose(uid string) (kind who, name string) {
	switch {
	case uid == "" || uid == "all":
		return everybody, uid
	case uid == "*":
		return each, uid
	case strings.HasPrefix(uid, planWord):
		return plan, uid[len(planWord):]
	case strings.HasPrefix(uid, userWord):
		return user, uid[len(userWord):]
	}
	return user, uid
}

// timeWords are periods that rule.ParseUnit does not know.
var timeWords = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "seconds": time.Second,
	"min": time.Minute, "minutes": time.Minute, "h": time.Hour, "hours": time.Hour, "days": 24 * time.Hour,
}

// parseTime parses a period.
func parseTime(written string) (time.Duration, error) {
	if u, ok := rule.ParseUnit(written); ok {
		return u.Per, nil
	}
	if d, ok := timeWords[strings.ToLower(written)]; ok {
		return d, nil
	}
	d, err := text.ParseDuration(written)
	if err != nil {
		return 0, &hinted{fmt.Sprintf("%q is not a valid time: %v", written, err), "write sec, minute, hour, day, or a length such as 15m"}
	}
	return d, nil
}

// terms are all properties of a rule except ID, uid and url. Many rules share the same terms. They
// are immutable.
type terms struct {
	domain, time, algorithm, policy string // as written in the rule
	requests, burst                 uint64

	unit           string        // unit of the time; "" for a duration
	per            time.Duration // 0 for an unlimited rule
	limit, stored  *stint.Limit
	soft           rule.Ratio
	shadow         bool
	onStoreFailure rule.Failure
}

// newTerms checks the terms of a rule and returns them.
func newTerms(r *Rule) (*terms, error) {
	t := &terms{
		domain: r.Domain, time: r.Time, algorithm: r.Algorithm, policy: r.Policy,
		requests: r.Requests, burst: r.Burst,
	}
	if err := t.readPolicy(r.Policy); err != nil {
		return nil, r.fault("policy", err)
	}
	spec, err := r.spec()
	if err != nil {
		return nil, err
	}
	if u, ok := rule.ParseUnit(r.Time); ok {
		t.unit = u.Name
	}
	spec.RoundRate = true
	if t.limit, err = stint.NewLimit(spec); err != nil {
		return nil, r.refused(err)
	}
	t.per = spec.Per
	if t.stored = t.limit; t.soft > 0 {
		if t.stored, err = soften(t.limit, t.soft); err != nil {
			return nil, r.fault("policy", err)
		}
	}
	return t, nil
}

// refused returns the error for a limit that could not be made, with the field that caused it.
func (r *Rule) refused(err error) *Error {
	e := r.fault("", err)
	if s, ok := errors.AsType[*stint.SpecError](err); ok {
		e.Field, e.Problem, e.Hint = s.Field, s.Problem, s.Hint
		if e.Field == "per" {
			e.Field = "time"
		}
	}
	return e
}

// spec returns the limit of the rule.
func (r *Rule) spec() (stint.Spec, error) {
	var spec stint.Spec
	var err error
	if r.Algorithm != "" {
		if spec.Algorithm, err = stint.ParseAlgorithm(r.Algorithm); err != nil {
			return spec, r.refused(err)
		}
	}
	if spec.Algorithm == stint.Unlimited && (r.Time != "" || r.Requests > 0 || r.Burst > 0) {
		return spec, &Error{r.ID, "algorithm", "an unlimited rule has no time, requests or burst", "leave these empty, or name another algorithm"}
	}
	if spec.Algorithm == stint.Unlimited {
		return spec, nil
	}
	if spec.Per, err = parseTime(r.Time); err != nil {
		return spec, r.fault("time", err)
	}
	for _, n := range []struct {
		field string
		from  uint64
		to    *uint32
	}{{"requests", r.Requests, &spec.Requests}, {"burst", r.Burst, &spec.Burst}} {
		if *n.to = uint32(n.from); uint64(*n.to) != n.from {
			return spec, &Error{r.ID, n.field, fmt.Sprintf("%d is too many", n.from), "the maximum is 4294967295; larger limits are practically unlimited"}
		}
	}
	return spec, nil
}
