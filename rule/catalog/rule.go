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

// Rule is one rule per API, as people write it: a row of a file, or the body of a
// PUT. `7,all,/v1/orders/{id},minute,5` denies the sixth GET of /v1/orders/7 or
// /v1/orders/8 within a minute, whoever asks: the pattern has one bucket, not each of
// its values.
//
// # Which rules apply
//
// A request is described by entries: path, and where they are known method, user and
// plan. There are two questions, and the answer to a request is all that both find:
// what do all users together get, and what does this user get?
//
//   - For all together, the rules with uid `all` whose url is the most specific that
//     matches.
//   - For this user, the rules whose url is the most specific that matches, among all
//     other rules that are for him. Where several uids have rules for that url, those
//     of his own name come before those of his plan, and these before those of
//     everybody (`*`).
//
// Several rules of the same url and uid apply together if their times differ, such as
// 10 a second and 100 a minute. Two with the same time are refused.
//
// # Which url is the most specific
//
// A url is compared segment by segment from the left: a literal comes before {name:regex},
// this before {name}, and this before whatever takes all that follows: {name...} and
// the slash at the end before {/...}. Of two that are alike, the one with a method comes
// first. Wherever net/http's ServeMux accepts two patterns, it makes the same choice;
// where it would refuse them as conflicting, this order decides.
//
// The zero Rule is none.
type Rule struct {
	// ID names the rule: what users see, and what the keys of a store begin with. It is
	// unique in the whole catalog. 1 to 255 bytes.
	ID string

	// UID is whom the rule is for:
	//
	//	all, or empty   all users together, in one bucket
	//	*               every user by himself, who has no rule of his own
	//	plan:gold       every user of that plan by himself
	//	42              the user 42
	//	user:all        the user whose name is all; so for any other name that has a
	//	                meaning here, also for one that begins with user:
	//
	// At most 255 bytes.
	UID string

	// URL is a pattern as net/http's ServeMux has it, without a host: an optional method
	// and a blank, literal segments, {name} for one segment, {name...} or a slash at the
	// end for all that follows, {$} for the end. GET covers HEAD. Beside these,
	//
	//	{name:regex}       is one segment that matches as a whole (RE2)
	//	/v1/users{/...}    is /v1/users and everything below it
	//
	// Paths and patterns are compared in their one spelling. At most 4,096 bytes and 64
	// segments.
	URL string

	// Time is the period: sec, second, min, minute, hour, day, week, month (30 days) or
	// year (365 days), or a length such as 15m, 1h30m or 2d.
	Time string

	// Requests is how many may pass in that time. 0 denies every one.
	Requests uint64

	// Algorithm is the name of one, such as token_bucket. "": fixed_window. A rule that is
	// unlimited has neither time nor requests, and lets pass what a less specific one
	// would limit.
	Algorithm string

	// Burst is that of a token_bucket (0: Requests) or leaky_bucket (0: none may wait).
	Burst uint64

	// Domain is the one that is asked. "": the catalog's default.
	Domain string

	// Policy is what the rule does beside counting, as words with blanks or + between
	// them: allow or deny, which answer when the store cannot (allow where silent);
	// shadow, which counts and denies nobody; and soft:10%, which lets that much more
	// pass, marked as over the limit.
	Policy string
}

// Error is what is wrong with a rule.
type Error struct {
	ID      string // of the rule, "" where that is what is wrong
	Field   string // id, uid, url, time, requests, algorithm, burst, domain or policy; "": the rule as a whole
	Problem string
	Hint    string // what to do
}

// Error returns what is wrong, and the hint on a line of its own.
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

// Bounds of the texts of a rule, in bytes.
const (
	MaxID     = 255
	MaxUID    = 255
	MaxURL    = 4096
	MaxDomain = 255
)

// Check returns nil for a rule that a catalog takes, else an [*Error]. Whether it fits
// beside the others only the catalog knows.
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

// checkTexts checks what is compared as it stands.
func (r *Rule) checkTexts() error {
	if r.ID == "" {
		return &Error{Field: "id", Problem: "a rule without an id", Hint: "give each rule an id that no other has, such as a number"}
	}
	for _, t := range []struct {
		field, text string
		most        int
	}{{"id", r.ID, MaxID}, {"uid", r.UID, MaxUID}, {"url", r.URL, MaxURL}, {"domain", r.Domain, MaxDomain}} {
		if len(t.text) > t.most {
			return &Error{r.ID[:min(len(r.ID), MaxID)], t.field, fmt.Sprintf("%d bytes are too long", len(t.text)), fmt.Sprintf("at most %d are kept", t.most)}
		}
		if i := strings.IndexFunc(t.text, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\uFFFD' }); i >= 0 {
			return &Error{r.ID, t.field, fmt.Sprintf("%q holds a control character, or is not UTF-8", t.text), "leave it out"}
		}
	}
	if _, name := whose(r.UID); name == "" && r.UID != "" {
		return &Error{r.ID, "uid", fmt.Sprintf("%q names nobody", r.UID), "write a name behind the colon, * for every user by himself, or all"}
	}
	return nil
}

// clone returns the rule with texts of its own.
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

// hinted is a fault before it is known in which rule it is.
type hinted struct{ problem, hint string }

func (h *hinted) Error() string { return h.problem }

// who is the kind of a uid.
type who uint8

const (
	everybody who = iota // all together
	each                 // *
	plan
	user
)

// Beginnings of uids.
const (
	planWord = "plan:"
	userWord = "user:"
)

// whose returns the kind of a uid, and the name of the plan or user, which is the end
// of uid; for the other kinds uid itself.
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

// timeWords are words for periods that rule.ParseUnit does not know.
var timeWords = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "seconds": time.Second,
	"min": time.Minute, "minutes": time.Minute, "h": time.Hour, "hours": time.Hour, "days": 24 * time.Hour,
}

// parseTime reads a period.
func parseTime(written string) (time.Duration, error) {
	if u, ok := rule.ParseUnit(written); ok {
		return u.Per, nil
	}
	if d, ok := timeWords[strings.ToLower(written)]; ok {
		return d, nil
	}
	d, err := text.ParseDuration(written)
	if err != nil {
		return 0, &hinted{fmt.Sprintf("%q is no time: %v", written, err), "write sec, minute, hour, day, or a length such as 15m"}
	}
	return d, nil
}

// terms are all that a rule says but for its names: many rules share the same. They
// are immutable.
type terms struct {
	domain, time, algorithm, policy string // as they are written
	requests, burst                 uint64

	unit           string        // of the time, "" for a length
	per            time.Duration // 0 for a rule that is unlimited
	limit, stored  *stint.Limit
	soft           rule.Ratio
	shadow         bool
	onStoreFailure rule.Failure
}

// newTerms checks the numbers of a rule.
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

// refused says which word of the rule a limit was refused for.
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

// spec returns the limit that the rule writes.
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
			return spec, &Error{r.ID, n.field, fmt.Sprintf("%d is too many", n.from), "at most 4294967295 are counted; more are as good as unlimited"}
		}
	}
	return spec, nil
}
