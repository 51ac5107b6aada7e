package recordapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"stint/internal/jsonbody"
	"stint/internal/logging"
	"stint/internal/text"
	"stint/notify"
	"stint/server/access"
)

// WebhooksPath is the path of receivers of webhooks and their deliveries, with all paths below it.
const WebhooksPath = "/v1/webhooks"

// Webhooks delivers events; see [notify.Engine].
type Webhooks interface {
	// Receivers returns the receivers in the order of the config file.
	Receivers() []notify.Receiver

	// List returns deliveries and the state of receivers.
	List(ctx context.Context, q notify.Query) (notify.List, error)

	// Retry makes deliveries wait again; see [notify.Queue]. Its error is notify.ErrUnknown for a name that no
	// receiver has, as is that of Test.
	Retry(ctx context.Context, receiver, id string) (int, error)

	// Test sends an event of its own once, and returns its ID and the answer.
	Test(ctx context.Context, receiver string) (id string, _ notify.Answer, _ error)
}

// hooks handles the requests about webhooks.
type hooks struct {
	webhooks Webhooks
	log      *slog.Logger
}

// NewWebhooks returns the handler of [WebhooksPath]. The caller must restrict access to the handler, with an
// [access.Guard] for the role read.
func NewWebhooks(w Webhooks, log *slog.Logger) http.Handler { return &hooks{w, log} }

// NoWebhooks answers the requests of a service without receivers.
func NoWebhooks(w http.ResponseWriter, _ *http.Request) {
	jsonbody.NoSuch("this service has no receivers of webhooks", "write them into its config file, as docs/webhooks.md says").Write(w)
}

// ServeHTTP handles a request.
func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch strings.TrimPrefix(r.URL.Path, WebhooksPath) {
	case "":
		serve(w, r, method{"GET", access.Read, "this", h.receivers})
	case "/deliveries":
		serve(w, r, method{"GET", access.Read, "this", h.deliveries})
	case "/retry":
		serve(w, r, method{"POST", access.Support, "to retry deliveries", h.retry})
	case "/test":
		serve(w, r, method{"POST", access.Support, "to test a receiver", h.test})
	default:
		unknown().Write(w)
	}
}

// receiversAnswer is the answer to GET /v1/webhooks.
type receiversAnswer struct {
	Receivers []receiverAnswer `json:"receivers"`
}

// receiverAnswer is a receiver. It has neither its secret nor the path of its URL.
type receiverAnswer struct {
	Name       string     `json:"name"`
	To         string     `json:"to"`    // scheme and host, or a file; "" if it is not configured any more
	Rules      []string   `json:"rules"` // empty: all
	Thresholds []int      `json:"thresholds"`
	Configured bool       `json:"configured"`
	Waiting    int        `json:"waiting"`
	Failed     int        `json:"failed"`
	Delivered  int        `json:"delivered"` // that are still kept
	Disabled   *time.Time `json:"disabled"`  // since when; null: it is not
	Paused     *time.Time `json:"paused"`    // until when; null: it is not
}

func (h *hooks) receivers(w http.ResponseWriter, r *http.Request) {
	if _, f := jsonbody.Query(r, maxQuery); f != nil {
		f.Write(w)
		return
	}
	list, err := h.webhooks.List(r.Context(), notify.Query{State: notify.Failed})
	if err != nil {
		h.failed(w, r, err)
		return
	}
	answer := receiversAnswer{Receivers: []receiverAnswer{}}
	for _, receiver := range h.webhooks.Receivers() {
		one := receiverAnswer{
			Name: receiver.Name, To: receiver.Place(), Configured: true,
			Rules: append([]string{}, receiver.Rules...), Thresholds: append([]int{}, receiver.Thresholds...),
		}
		one.add(list.Receivers[receiver.Name])
		delete(list.Receivers, receiver.Name)
		answer.Receivers = append(answer.Receivers, one)
	}
	var former []receiverAnswer
	for name, status := range list.Receivers {
		if status.Waiting+status.Failed+status.Delivered == 0 {
			continue // a former receiver, of which nothing is kept
		}
		one := receiverAnswer{Name: name, Rules: []string{}, Thresholds: []int{}}
		one.add(status)
		former = append(former, one)
	}
	slices.SortFunc(former, func(a, b receiverAnswer) int { return strings.Compare(a.Name, b.Name) })
	answer.Receivers = append(answer.Receivers, former...)
	jsonbody.WriteJSON(w, http.StatusOK, answer)
}

// add adds the state of the receiver.
func (a *receiverAnswer) add(s notify.ReceiverStatus) {
	a.Waiting, a.Failed, a.Delivered = s.Waiting, s.Failed, s.Delivered
	a.Disabled = shownTime(s.Disabled)
	if s.Paused.After(time.Now()) {
		a.Paused = shownTime(s.Paused)
	}
}

// shownTime returns a time in UTC; nil for none.
func shownTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// deliveriesAnswer is the answer to GET /v1/webhooks/deliveries.
type deliveriesAnswer struct {
	Deliveries []deliveryAnswer `json:"deliveries"`
}

// deliveryAnswer is a delivery.
type deliveryAnswer struct {
	Receiver  string       `json:"receiver"`
	ID        string       `json:"id"` // of the event
	State     notify.State `json:"state"`
	Type      string       `json:"type"`
	Timestamp time.Time    `json:"timestamp"` // of the event
	Rule      string       `json:"rule"`
	Limit     string       `json:"limit"`
	Subject   string       `json:"subject"`
	Plan      string       `json:"plan"`
	Threshold int          `json:"threshold"`
	Tries     int          `json:"tries"`
	Tried     *time.Time   `json:"tried"` // null before the first try
	Due       *time.Time   `json:"due"`   // null unless it waits
	Status    int          `json:"status"`
	Problem   string       `json:"problem"`
}

func (h *hooks) deliveries(w http.ResponseWriter, r *http.Request) {
	query, f := jsonbody.Query(r, maxQuery, "state", "receiver", "limit")
	q := notify.Query{State: notify.Failed, Receiver: query.Get("receiver")}
	if f == nil {
		q.Limit, f = jsonbody.PageLimit(query, "deliveries")
	}
	if f == nil && query.Has("state") {
		if q.State = notify.State(query.Get("state")); !slices.Contains(notify.States, q.State) {
			f = jsonbody.Bad("state", text.Quote(string(q.State))+" is no state", "write waiting, failed or delivered")
		}
	}
	if f != nil {
		f.Write(w)
		return
	}
	list, err := h.webhooks.List(r.Context(), q)
	if err != nil {
		h.failed(w, r, err)
		return
	}
	answer := deliveriesAnswer{Deliveries: []deliveryAnswer{}}
	for i := range list.Deliveries {
		answer.Deliveries = append(answer.Deliveries, shownDelivery(&list.Deliveries[i]))
	}
	jsonbody.WriteJSON(w, http.StatusOK, answer)
}

// shownDelivery returns a delivery as the API shows it.
func shownDelivery(d *notify.Delivery) deliveryAnswer {
	e := &d.Event
	a := deliveryAnswer{
		Receiver: d.Receiver, ID: e.ID, State: d.State, Type: e.Type, Timestamp: e.At.UTC(), Rule: e.Rule, Limit: e.Limit, Subject: e.Subject,
		Plan: e.Plan, Threshold: e.Threshold, Tries: d.Tries, Tried: shownTime(d.Tried), Status: d.Status, Problem: d.Problem,
	}
	if d.State == notify.Waiting {
		a.Due = shownTime(d.Due)
	}
	return a
}

// target is what a request says about deliveries.
type target struct{ receiver, id string }

// readTarget decodes a body with these fields.
func readTarget(r *http.Request, fields ...string) (t target, f *jsonbody.Fault) {
	_, f = readObject(r, fields, func(s *jsonbody.Scanner, name string) (f *jsonbody.Fault) {
		to := &t.receiver
		if name == "id" {
			to = &t.id
		}
		*to, f = s.Text()
		*to = strings.Clone(*to)
		return f
	})
	if f == nil && t.receiver == "" {
		f = jsonbody.Bad("receiver", "missing", "write the name of a receiver, as GET /v1/webhooks shows it")
	}
	return t, f
}

// retriedAnswer is the answer to POST /v1/webhooks/retry.
type retriedAnswer struct {
	Retried int `json:"retried"`
}

func (h *hooks) retry(w http.ResponseWriter, r *http.Request) {
	t, f := readTarget(r, "receiver", "id")
	if f != nil {
		f.Write(w)
		return
	}
	n, err := h.webhooks.Retry(r.Context(), t.receiver, t.id)
	if err == nil && n == 0 && t.id != "" {
		jsonbody.NoSuch("no failed or delivered event of "+text.Quote(t.receiver)+" has this id", "see GET /v1/webhooks/deliveries; one that waits is tried anyway").Write(w)
		return
	}
	if err != nil {
		h.failed(w, r, err)
		return
	}
	h.log.Info("deliveries retried", "receiver", t.receiver, "events", n, "caller", By(r).Name, "peer", r.RemoteAddr)
	jsonbody.WriteJSON(w, http.StatusOK, retriedAnswer{n})
}

// testAnswer is the answer to POST /v1/webhooks/test.
type testAnswer struct {
	ID        string `json:"id"`
	Delivered bool   `json:"delivered"`
	Status    int    `json:"status"`
	Problem   string `json:"problem"`
	TookMS    int64  `json:"took_ms"`
}

func (h *hooks) test(w http.ResponseWriter, r *http.Request) {
	t, f := readTarget(r, "receiver")
	if f != nil {
		f.Write(w)
		return
	}
	jsonbody.ExtendDeadlines(w) // a receiver may be slow
	began := time.Now()
	id, answer, err := h.webhooks.Test(r.Context(), t.receiver)
	if err != nil {
		h.failed(w, r, err)
		return
	}
	h.log.Info("receiver tested", "receiver", t.receiver, "event", id, "status", answer.Status, "error", answer.Problem, "caller", By(r).Name, "peer", r.RemoteAddr)
	jsonbody.WriteJSON(w, http.StatusOK, testAnswer{id, answer.Problem == "", answer.Status, answer.Problem, time.Since(began).Milliseconds()})
}

// failed answers a request with an error.
func (h *hooks) failed(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, notify.ErrUnknown) {
		jsonbody.NoSuch("no receiver has this name", "GET /v1/webhooks lists them").Write(w)
		return
	}
	f := &jsonbody.Fault{Status: http.StatusServiceUnavailable, Code: jsonbody.Unavailable, Problem: "the deliveries cannot be read or changed: " + err.Error(), Hint: "see the log of the service, and try again"}
	if wrong, ok := errors.AsType[*notify.Error](err); ok {
		f.Hint = wrong.Hint
	}
	h.log.Error("request about webhooks failed", "path", logging.Route(r, WebhooksPath), "error", err)
	f.Write(w)
}
