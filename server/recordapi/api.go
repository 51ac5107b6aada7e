package recordapi

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"stint/internal/jsonbody"
	"stint/records"
	"stint/rule"
	"stint/server/access"
)

// Paths are the paths of the API, which handles them and all paths below.
var Paths = []string{"/v1/records", "/v1/subjects", "/v1/overrides", "/v1/bans", "/v1/keys", "/v1/plans", "/v1/grants", "/v1/audit"}

// api handles the requests.
type api struct {
	file       *records.File
	log        *slog.Logger
	override   CheckOverride
	grant      CheckGrant
	plan       func(name string) bool
	periodEnd  func(plan string, subscribed, now time.Time) (end time.Time, ok bool)
	supportFor time.Duration
}

// Options are the settings of the API.
type Options struct {
	Log *slog.Logger // receives each change; nil for none

	// Override checks each override that is put. An import warns of those that it refuses. It may be nil.
	Override CheckOverride

	// Grant checks each grant that is put. An import warns of those that it refuses. It may be nil.
	Grant CheckGrant

	// Plan reports whether there is a plan of a name; nil: it is not known.
	Plan func(name string) bool

	// PeriodEnd returns the end of the current period of a plan, "" for the default plan, for a subject with
	// that subscription; ok is false if the plan has none. Nil: no plan has any.
	PeriodEnd func(plan string, subscribed, now time.Time) (end time.Time, ok bool)

	// SupportFor is how long overrides may last that the role support makes and changes; 0 for no bound.
	SupportFor time.Duration
}

// CheckOverride checks the numbers of an override against the rules with this name in force. known
// reports whether there are any. The error is a [*rule.NumbersError].
type CheckOverride func(name string, n rule.Numbers) (known bool, err error)

// CheckGrant checks a grant of a limit, by its name in plans, to a subject with a plan, "" for the default plan. The warning says why it has no effect now; "" if it has. The error means that there can be no such grants.
type CheckGrant func(subject, limit, plan string) (warning string, err error)

// Off answers the requests of a service without records.
func Off(w http.ResponseWriter, _ *http.Request) {
	jsonbody.NoSuch("this service has no records", "start it with --records FILE").Write(w)
}

// New returns the handler of [Paths]. The caller must restrict access to the handler, with an
// [access.Guard] for the role read.
func New(f *records.File, o Options) http.Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &api{file: f, log: o.Log, override: o.Override, grant: o.Grant, plan: o.Plan, periodEnd: o.PeriodEnd, supportFor: o.SupportFor}
}

// collection is a kind of records on its path.
type collection struct {
	kind   records.Kind
	path   string
	change access.Role // who may change its records at all
}

var collections = map[string]collection{
	"subjects":  {records.Subjects, "/v1/subjects", access.Write},
	"overrides": {records.Overrides, "/v1/overrides", access.Support},
	"bans":      {records.Bans, "/v1/bans", access.Support},
	"keys":      {records.APIKeys, "/v1/keys", access.Write},
	"plans":     {records.Plans, "/v1/plans", access.Write},
	"grants":    {records.Grants, "/v1/grants", access.Write},
}

// ServeHTTP handles a request. It splits the path as it was sent and then decodes the escapes, so
// that names can have slashes.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	first, rest, more := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/v1/"), "/")
	c, isKind := collections[first]
	switch {
	case first == "records":
		a.whole(w, r, rest, more)
	case first == "audit":
		a.audit(w, r, rest, more)
	case isKind && more:
		a.below(w, r, c, rest)
	case isKind:
		a.all(w, r, c)
	default:
		unknown().Write(w)
	}
}

func unknown() *jsonbody.Fault {
	return jsonbody.NoSuch("nothing has this path", "see docs/openapi.yaml; write %2F for a slash in a name")
}

// method is what a path does for a method.
type method struct {
	name string
	role access.Role
	what string // what needs the role
	do   func(w http.ResponseWriter, r *http.Request)
}

// serve calls the method of the request, or refuses it.
func serve(w http.ResponseWriter, r *http.Request, methods ...method) {
	var allowed []string
	for _, m := range methods {
		if m.name == r.Method || m.name == http.MethodGet && r.Method == http.MethodHead {
			if access.Allow(w, r, m.role, m.what) {
				m.do(w, r)
			}
			return
		}
		allowed = append(allowed, m.name)
		if m.name == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	jsonbody.RefuseMethod(w, r, allowed...)
}

// whole handles the paths of all records.
func (a *api) whole(w http.ResponseWriter, r *http.Request, rest string, more bool) {
	switch {
	case !more:
		serve(w, r, method{"GET", access.Read, "this", a.status})
	case rest == "import":
		serve(w, r, method{"POST", access.Write, "an import", a.load})
	case rest == "export":
		serve(w, r, method{"GET", access.Read, "this", a.save})
	default:
		unknown().Write(w)
	}
}

// all handles the path of a kind.
func (a *api) all(w http.ResponseWriter, r *http.Request, c collection) {
	list := method{"GET", access.Read, "this", func(w http.ResponseWriter, r *http.Request) { a.list(w, r, c) }}
	if c.kind == records.APIKeys {
		serve(w, r, list, method{"POST", access.Write, "a new API key", a.createKey})
		return
	}
	serve(w, r, list, method{"PUT", c.change, "a " + string(c.kind), func(w http.ResponseWriter, r *http.Request) { a.put(w, r, c, "") }})
}

// below handles the path of a record, and what follows it.
func (a *api) below(w http.ResponseWriter, r *http.Request, c collection, rest string) {
	escaped, verb := rest, ""
	for _, known := range verbs[c.kind] {
		if before, is := strings.CutSuffix(rest, "/"+known); is && before != "" {
			escaped, verb = before, known
		}
	}
	with := func(do func(w http.ResponseWriter, r *http.Request, name string)) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			name, f := a.nameOf(c, escaped)
			if f != nil {
				f.Write(w)
				return
			}
			do(w, r, name)
		}
	}
	remove := with(func(w http.ResponseWriter, r *http.Request, name string) { a.remove(w, r, c, name) })
	switch {
	case verb == "export":
		serve(w, r, method{"GET", access.Read, "this", with(a.exportSubject)})
	case verb == "erase":
		serve(w, r, method{"POST", access.Write, "to erase a subject", with(a.eraseSubject)})
	case verb == "replace":
		serve(w, r, method{"POST", access.Write, "to replace an API key", with(a.replaceKey)})
	case verb == "revoke":
		serve(w, r, method{"POST", access.Write, "to revoke an API key", remove})
	default:
		methods := []method{
			{"GET", access.Read, "this", with(func(w http.ResponseWriter, r *http.Request, name string) { a.show(w, r, c, name) })},
			{"DELETE", c.change, "to delete a " + string(c.kind), remove},
		}
		if c.kind != records.APIKeys { // whose fields come from the key
			methods = append(methods, method{"PUT", c.change, "a " + string(c.kind), with(func(w http.ResponseWriter, r *http.Request, name string) { a.put(w, r, c, name) })})
		}
		serve(w, r, methods...)
	}
}

// verbs are what can follow a name in a path. A name that ends like this has %2F for its slash.
var verbs = map[records.Kind][]string{
	records.Subjects: {"erase", "export"},
	records.APIKeys:  {"replace", "revoke"},
}

// lastOf is what follows the subject in the path of a record; "" for nothing.
var lastOf = map[records.Kind]string{records.Overrides: "RULE", records.Grants: "ID"}

// nameOf returns the name of a record from its path.
func (a *api) nameOf(c collection, escaped string) (string, *jsonbody.Fault) {
	rule, hasRule := "", false // or the ID of a grant
	if last := lastOf[c.kind]; last != "" {
		escaped, rule, hasRule = strings.Cut(escaped, "/")
		if !hasRule {
			return "", jsonbody.NoSuch("no "+string(c.kind)+" has this path", "write "+c.path+"/SUBJECT/"+last+", with %2F for a slash in the subject")
		}
	}
	name, err := url.PathUnescape(escaped)
	rule, err2 := url.PathUnescape(rule)
	if err != nil || err2 != nil || name == "" || strings.ContainsFunc(name, unicode.IsControl) || strings.ContainsFunc(rule, unicode.IsControl) {
		return "", unknown()
	}
	switch {
	case c.kind == records.Grants:
		return records.Grant{Subject: name, Name: rule}.ID().Name, nil
	case hasRule:
		return records.Override{Target: name, Rule: rule}.ID().Name, nil
	case c.kind == records.APIKeys:
		return a.hashOf(name)
	case c.kind == records.Bans && !strings.Contains(name, "="):
		if network, err := records.ParseNetwork(name); err == nil {
			return records.Ban{Network: network}.ID().Name, nil
		}
	}
	return name, nil
}
