package factsapi

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"stint"
	"stint/internal/jsonbody"
	"stint/internal/transaction"
	"stint/internal/web"
	"stint/limiter"
	"stint/limiter/response"
)

// MePath is the path of [NewMe].
const MePath = "/v1/me/usage"

// MeOptions are what the handler for customers needs.
type MeOptions struct {
	UsageOptions

	// Identify returns the subject of an API key and its plan; the subject is "" if the key is not
	// valid.
	Identify func(key string) (subject, plan string, err error)

	// Guard decides by which limits MePath itself is limited. It must not be the store of the rules.
	Guard stint.Store

	// Trusted are the proxies whose X-Forwarded-For names the client.
	Trusted []netip.Prefix
}

// The limits of MePath: of an address, which may try keys, and of a subject.
var (
	perAddress = stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 120, Per: time.Minute})
	perSubject = stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 60, Per: time.Minute})
)

// me handles MePath.
type me struct {
	*usageAPI
	options MeOptions
	clients *web.ClientFinder
}

// NewMe returns the handler of MePath. A caller sends her API key as "Authorization: Bearer KEY" or in
// X-Api-Key, and sees the use of its subject alone. A key that is missing, mistyped, unknown, expired or
// revoked gets the same answer.
func NewMe(o MeOptions) http.Handler {
	return &me{newUsageAPI(o.UsageOptions), o, web.NewClientFinder(web.TrustConfig{Trusted: o.Trusted})}
}

// meAnswer is the answer to GET /v1/me/usage.
type meAnswer struct {
	Subject string    `json:"subject"`
	Plan    string    `json:"plan"`
	Limits  []meLimit `json:"limits"`
}

// meLimit is one limit of the subject.
type meLimit struct {
	Domain       string     `json:"domain"`
	Rule         string     `json:"rule"`
	Requests     *int64     `json:"requests"` // null: no limit
	Used         uint64     `json:"used"`
	Left         *int64     `json:"left"`
	Reset        *time.Time `json:"reset"` // when the whole limit is available again; null if it is
	ResetAfterMS int64      `json:"reset_after_ms"`
	History      []mePeriod `json:"history"`
	response.Balances
}

// mePeriod is the use in one period.
type mePeriod struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	Used  uint64    `json:"used"`
	Open  bool      `json:"open"`
}

// ServeHTTP answers GET /v1/me/usage.
func (m *me) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if f := m.answer(w, r); f != nil {
		f.Write(w)
	}
}

func (m *me) answer(w http.ResponseWriter, r *http.Request) *jsonbody.Fault {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		jsonbody.RefuseMethod(w, r, "GET", "HEAD")
		return nil
	}
	address := web.GroupAddr(m.clients.Client(web.PeerAddr(r.RemoteAddr), r.Header.Values(m.clients.Header())), 64)
	if f := m.limited(w, r, "address "+address.String(), perAddress); f != nil {
		return f
	}
	subject, plan, err := m.options.Identify(keyOf(r.Header))
	if err != nil {
		return m.failed(err)
	}
	if subject == "" {
		w.Header().Set("WWW-Authenticate", `Bearer realm="usage"`)
		return &jsonbody.Fault{Status: http.StatusUnauthorized, Code: jsonbody.Unauthorized, Problem: "no valid API key", Hint: "send it as Authorization: Bearer KEY"}
	}
	if f := m.limited(w, r, "subject "+subject, perSubject); f != nil {
		return f
	}
	query, f := jsonbody.Query(r, maxUsageText, "format")
	if f != nil {
		return f
	}
	asCSV, f := wantsCSV(query.Get("format"), r.Header.Values("Accept"))
	if f != nil {
		return f
	}
	limits, err := m.limitsOf(r.Context(), subject)
	if err != nil {
		return m.failed(err)
	}
	if !asCSV {
		if table := m.usageAPI.options.Table(); plan == "" && table != nil {
			_, plan = table.Plans()
		}
		jsonbody.WriteJSON(w, http.StatusOK, meAnswer{Subject: subject, Plan: plan, Limits: limits})
		return nil
	}
	writeCSV(w, []string{"domain", "rule", "start", "end", "used", "open"}, func(write func(line []string) error) {
		for i := range limits {
			for _, p := range limits[i].History {
				_ = write([]string{
					cell(limits[i].Domain), cell(limits[i].Rule), p.Start.Format(time.RFC3339), p.End.Format(time.RFC3339),
					strconv.FormatUint(p.Used, 10), strconv.FormatBool(p.Open),
				})
			}
		}
	})
	return nil
}

// limited takes one request from a limit of MePath itself.
func (m *me) limited(w http.ResponseWriter, r *http.Request, key string, limit *stint.Limit) *jsonbody.Fault {
	call := stint.Call{Takes: []stint.Take{{Key: stint.Key(key), Limit: limit, Cost: 1}}}
	if err := m.options.Guard.Decide(r.Context(), &call); err != nil {
		return m.failed(err)
	}
	d := &call.Results[0]
	if d.Allowed {
		return nil
	}
	w.Header().Set("Retry-After", strconv.FormatInt(web.Seconds(d.RetryAfter), 10))
	return &jsonbody.Fault{Status: http.StatusTooManyRequests, Code: jsonbody.RateLimited, Problem: "too many requests for usage", Hint: "wait as Retry-After says"}
}

// keyOf returns the API key in a header, "" if there is none.
func keyOf(h http.Header) string {
	if scheme, key, _ := strings.Cut(h.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(key)
	}
	return h.Get("X-Api-Key")
}

// limitsOf returns the limits that follow from a subject alone, with its use.
func (m *me) limitsOf(ctx context.Context, subject string) ([]meLimit, error) {
	all := []meLimit{}
	table := m.usageAPI.options.Table()
	if table == nil {
		return all, nil
	}
	key, value, _ := strings.Cut(subject, "=")
	byDomain := map[string][]limiter.Descriptor{}
	seen := map[string]bool{} // entries, which may match several rules: a look at them has the limits of all
	for _, r := range table.Rules() {
		entries, ok := r.EntriesOf(key, value)
		if same := fmt.Sprintf("%q %q", r.Domain, entries); ok && !seen[same] && len(byDomain[r.Domain]) < limiter.MaxDescriptors {
			seen[same] = true
			byDomain[r.Domain] = append(byDomain[r.Domain], limiter.Descriptor{Entries: entries})
		}
	}
	for _, d := range table.Domains() {
		if len(byDomain[d.Name()]) == 0 {
			continue
		}
		limits, err := m.look(ctx, &limiter.Request{Domain: d.Name(), Table: table, Descriptors: byDomain[d.Name()]})
		if err != nil {
			return nil, err
		}
		all = append(all, limits...)
	}
	return all, nil
}

// look returns the limits of a request that takes nothing.
func (m *me) look(ctx context.Context, req *limiter.Request) (all []meLimit, err error) {
	var v limiter.Verdict
	if err := m.usageAPI.options.Limiter.Decide(ctx, req, &v); err != nil {
		return nil, err
	}
	for i := range v.Asked {
		a := &v.Asked[i]
		if a.Rule == nil {
			continue
		}
		l := meLimit{Domain: a.Rule.Domain, Rule: a.Rule.Name, History: []mePeriod{}}
		if a.Limit != stint.NoLimit {
			l.Requests, l.Left, l.Used = &a.Limit, &a.Remaining, uint64(max(0, a.Limit-a.Remaining))
			l.ResetAfterMS = a.ResetAfter.Milliseconds()
			if a.ResetAfter > 0 {
				reset := a.At.Add(a.ResetAfter).Time().UTC()
				l.Reset = &reset
			}
		}
		if take := v.Take(i); take != nil && (a.Rule.Usage != nil || response.HasBalances(take)) {
			named := limiter.UsageTake(a.Rule, v.Entries(a.Descriptor), m.usageAPI.options.Secret)
			u, err := m.usageAPI.options.Store.Usage(ctx, &named)
			if err != nil {
				return nil, err
			}
			if a.Rule.Usage != nil {
				l.addHistory(u.History.At(named.Limit, a.Rule.Usage.Periods, a.At), a.At)
			}
			if response.HasBalances(take) {
				l.Balances = response.BalancesOf(take, u.Book, a.At)
			}
		}
		all = append(all, l)
	}
	return all, nil
}

// addHistory adds the history of a limit, whose current period says what is used.
func (l *meLimit) addHistory(history []transaction.Period, now stint.Instant) {
	for _, p := range history {
		l.History = append(l.History, mePeriod{p.Start.Time().UTC(), p.End.Time().UTC(), p.Used, now < p.End})
	}
	l.Used = l.History[len(l.History)-1].Used
}
