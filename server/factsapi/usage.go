package factsapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"stint"
	"stint/internal/jsonbody"
	"stint/internal/logging"
	"stint/internal/text"
	"stint/internal/transaction"
	"stint/limiter"
	"stint/rule"
)

// UsageStore is where histories are kept.
type UsageStore interface {
	// Usage returns the history of a take's key, and the names of the take if there is none.
	Usage(ctx context.Context, t *stint.Take) (transaction.Usage, error)

	// Usages calls yield for each history until it returns false. A history may come in several parts.
	Usages(ctx context.Context, yield func(transaction.Usage) bool) error
}

// UsageOptions are what the handlers need. Store, Limiter and Table are required.
type UsageOptions struct {
	Store     UsageStore
	Limiter   *limiter.Limiter   // decides looks
	Table     func() *rule.Table // the rules in force
	Secret    *rule.KeySecret    // for hashes of secrets in subjects; nil: as they are
	Namespace string             // is part of the IDs of rows

	// Plan returns the plan of a subject whose history has none. Nil: there is none.
	Plan func(subject string) string

	// Subscribed returns when the subscription of a subject began, the zero time if that is unknown. Nil: it always is.
	Subscribed func(subject string) time.Time

	// Grants calls yield for the grants of a subject, or of all for "", that have not ended, until it returns
	// false. Nil: there are none.
	Grants func(subject string, yield func(Granted) bool) error

	// Log receives the errors of the store. It may be nil.
	Log *slog.Logger

	now func() time.Time // nil: time.Now
}

// Paths of the handler for operators.
const (
	UsagePath       = "/v1/usage"
	UsagePlansPath  = UsagePath + "/plans"
	UsageExportPath = UsagePath + "/export"
	UsageGrantsPath = UsagePath + "/grants"
)

const (
	maxUsageText = 1024

	// maxRows is the most rows of an answer, about 200 MB of memory.
	maxRows = 1_000_000

	// maxFull is how many requests may read all histories at the same time.
	maxFull = 2

	// waitFull is how long a request waits for its turn to read all histories.
	waitFull = 30 * time.Second
)

// errTooMany means that an answer would have more than maxRows.
var errTooMany = errors.New("more than a million periods")

// usageAPI handles the requests of operators and customers.
type usageAPI struct {
	options UsageOptions
	full    chan struct{} // has an element for each request that reads all histories, until it is answered
}

func newUsageAPI(o UsageOptions) *usageAPI {
	if o.now == nil {
		o.now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &usageAPI{o, make(chan struct{}, maxFull)}
}

// NewUsage returns the handler of UsagePath, UsagePlansPath, UsageExportPath and UsageGrantsPath. The caller must restrict access to it, with
// the role read.
func NewUsage(o UsageOptions) http.Handler {
	a := newUsageAPI(o)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			jsonbody.RefuseMethod(w, r, "GET", "HEAD")
			return
		}
		to := newReadWriter(w)
		if f := a.serve(to, r); f != nil {
			f.Write(to)
		}
		if to.slow {
			a.options.Log.Warn("usage not sent: the client does not read it", "client", r.RemoteAddr, "path", logging.Route(r, usagePaths...), "sent", to.sent)
		}
	})
}

// usagePaths are the paths of NewUsage.
var usagePaths = []string{UsagePath, UsagePlansPath, UsageExportPath, UsageGrantsPath}

// plansAnswer is the answer to GET /v1/usage/plans.
type plansAnswer struct {
	Plans []UsageTotal `json:"plans"`
}

func (a *usageAPI) serve(w http.ResponseWriter, r *http.Request) *jsonbody.Fault {
	if !slices.Contains(usagePaths, r.URL.Path) {
		return jsonbody.NoSuch("nothing is at "+text.Quote(r.URL.Path), "ask for "+UsagePath+", "+UsagePlansPath+", "+UsageExportPath+" or "+UsageGrantsPath)
	}
	query, f := jsonbody.Query(r, maxUsageText, "subject", "rule", "from", "format")
	if f != nil {
		return f
	}
	asCSV, f := wantsCSV(query.Get("format"), r.Header.Values("Accept"))
	if f != nil {
		return f
	}
	which := usageFilter{subject: query.Get("subject"), rule: query.Get("rule"), closed: r.URL.Path == UsageExportPath}
	if which.subject != "" && !strings.Contains(which.subject, "=") {
		return jsonbody.Bad("subject", text.Quote(which.subject)+" is no subject", "write KEY=VALUE, such as user=42")
	}
	if which.from, f = readTime(query.Get("from")); f != nil {
		return f
	}
	jsonbody.ExtendDeadlines(w)
	if r.URL.Path == UsageGrantsPath {
		return a.serveGrants(w, r, which, asCSV)
	}
	takes, direct := a.takesOf(which)
	if !direct {
		if f := a.enter(r.Context(), w); f != nil {
			return f
		}
		defer func() { <-a.full }()
	}
	now := stint.At(a.options.now())
	rows, err := a.rows(r.Context(), which, takes, now)
	switch {
	case errors.Is(err, errTooMany):
		return jsonbody.Bad("", "the answer would have "+errTooMany.Error(), "ask for one rule with rule=, or for later ones with from=")
	case err != nil:
		return a.failed(err)
	}
	switch {
	case r.URL.Path == UsagePlansPath && asCSV:
		writeTotals(w, totals(rows, now))
	case r.URL.Path == UsagePlansPath:
		jsonbody.WriteJSON(w, http.StatusOK, plansAnswer{totals(rows, now)})
	case asCSV:
		a.writeRowsCSV(w, rows, now)
	default:
		a.writeRows(w, rows, now)
	}
	return nil
}

// enter waits until the request may read all histories. The memory of such requests is bounded by their number; they
// keep it until their clients have read the answers, or stop to read: see readWriter.
func (a *usageAPI) enter(ctx context.Context, w http.ResponseWriter) *jsonbody.Fault {
	ctx, cancel := context.WithTimeout(ctx, waitFull)
	defer cancel()
	select {
	case a.full <- struct{}{}:
		return nil
	case <-ctx.Done():
		w.Header().Set("Retry-After", "30")
		return &jsonbody.Fault{
			Status: http.StatusServiceUnavailable, Code: jsonbody.NoDecision,
			Problem: "others read the use of all subjects", Hint: "try again later, or ask for one subject with subject=",
		}
	}
}

// writeRows answers with rows as JSON, one after the other: all of them would need much memory.
func (a *usageAPI) writeRows(w http.ResponseWriter, rows []row, now stint.Instant) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	out := bufio.NewWriter(w) // an error means that the client is gone, and stays
	_, _ = out.WriteString(`{"usage":[`)
	for i := range rows {
		if i > 0 {
			_ = out.WriteByte(',')
		}
		text, _ := json.Marshal(a.usageRow(&rows[i], now)) // it never fails
		if _, err := out.Write(text); err != nil {
			return
		}
	}
	_, _ = out.WriteString("]}\n")
	_ = out.Flush()
}

// failed logs an error of the store and returns the fault, which does not have its cause.
func (a *usageAPI) failed(err error) *jsonbody.Fault {
	a.options.Log.Error("cannot read usage from the store", "error", err)
	return &jsonbody.Fault{Status: http.StatusServiceUnavailable, Code: jsonbody.NoDecision, Problem: "the store did not answer", Hint: "try again; the log of the service has the cause"}
}

// readTime reads a time or a date, the zero time for "".
func readTime(written string) (time.Time, *jsonbody.Fault) {
	if written == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, written); err == nil {
			return t, nil
		}
	}
	return time.Time{}, jsonbody.Bad("from", text.Quote(written)+" is no time", "write a date such as 2026-01-31, or a time such as 2026-01-31T00:00:00Z")
}

// takesOf returns the takes of the keys of a filter's subject. direct is false if these do not follow
// from the subject, so that all histories have to be read.
func (a *usageAPI) takesOf(f usageFilter) (takes []stint.Take, direct bool) {
	table := a.options.Table()
	if f.subject == "" || table == nil {
		return nil, false
	}
	key, value, _ := strings.Cut(f.subject, "=")
	seen := map[string]bool{} // rules of plans have one history
	for _, r := range table.Metered() {
		if f.rule != "" && r.Name != f.rule || r.Path[len(r.Path)-1].Key != key {
			continue
		}
		entries, ok := r.EntriesOf(key, value)
		if !ok {
			return nil, false
		}
		name := nameOf(r.Domain, r.Name)
		if seen[name] {
			continue
		}
		seen[name] = true
		takes = append(takes, limiter.UsageTake(r, entries, a.options.Secret))
	}
	return takes, len(takes) > 0
}
