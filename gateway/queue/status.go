package queue

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"stint/internal/web"
)

const (
	// StateHeader is the field of the answers of a status resource that has the state of the record. It
	// tells an answer of the upstream from one of the gateway.
	StateHeader = "Stint-Queue-State"

	// TruncatedHeader is "true" if the body of the upstream's answer was too long to be kept.
	TruncatedHeader = "Stint-Queue-Truncated"

	// statusTimeout is how long the storage may take for a status.
	statusTimeout = 5 * time.Second
)

// Identified returns the client of a request that proved an identity.
func Identified(identity string) string { return "identity " + identity }

// Anonymous returns the client of a request without an identity: its address, of IPv6 its /64.
func Anonymous(client netip.Addr) string { return "address " + web.GroupAddr(client, 0).String() }

// IsStatus reports whether a path is that of a status resource.
func IsStatus(path string) bool { return strings.HasPrefix(path, StatusPath) }

// errState means that a record is in another state than is needed.
var errState = errors.New("the state of the record does not allow this")

// ServeStatus serves the status resource of a record to a client, as Identified or Anonymous returns it.
// To any other client the record does not exist.
func (q *Queue) ServeStatus(w http.ResponseWriter, r *http.Request, client string) {
	id := strings.TrimPrefix(r.URL.Path, StatusPath)
	if !ValidID(id) {
		fault(w, http.StatusNotFound, "not_found", "no such request", "")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), statusTimeout)
	defer cancel()
	e, err := q.options.Storage.Get(ctx, id)
	switch {
	case errors.Is(err, ErrUnknown), err == nil && e.Who != whoOf(id, client):
		fault(w, http.StatusNotFound, "not_found", "no such request", "")
	case err != nil:
		q.unavailable(w, err)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		q.show(w, r, e)
	case r.Method == http.MethodDelete:
		q.cancel(ctx, w, e)
	default:
		w.Header().Set("Allow", "GET, HEAD, DELETE")
		fault(w, http.StatusMethodNotAllowed, "method_not_allowed", "this resource has GET, HEAD and DELETE", e.State)
	}
}

func (q *Queue) unavailable(w http.ResponseWriter, err error) {
	q.options.Log.Error("cannot read a record of the queue", "error", err)
	w.Header().Set("Retry-After", "1")
	fault(w, http.StatusServiceUnavailable, "queue_unavailable", "the queue cannot be read now; try again", "")
}

// show answers GET.
func (q *Queue) show(w http.ResponseWriter, r *http.Request, e *Entry) {
	switch e.State {
	case Waiting, Claimed:
		w.Header().Set(StateHeader, string(e.State))
		writeJSON(w, http.StatusAccepted, time.Until(e.At), accepted{ID: e.ID, State: e.State, Status: StatusPath + e.ID})
	case Failed:
		fault(w, http.StatusForbidden, "refused", "the request was not sent: its client may not send it any more", e.State)
	case Cancelled:
		fault(w, http.StatusGone, "cancelled", "the request was cancelled", e.State)
	default:
		q.showAnswer(w, r, e)
	}
}

// showAnswer answers GET with the upstream's answer.
func (q *Queue) showAnswer(w http.ResponseWriter, r *http.Request, e *Entry) {
	switch {
	case e.State == Gone, e.State != Dead && !e.At.After(time.Now()), e.State == Dead && time.Since(e.Ended) >= e.Keep:
		fault(w, http.StatusGone, "gone", "the answer is not kept any more", Gone)
		return
	case e.Answer == nil:
		fault(w, http.StatusGatewayTimeout, "undeliverable", "the request was tried too often without an answer", e.State)
		return
	}
	a, err := q.openAnswer(e)
	if err != nil {
		q.unavailable(w, err)
		return
	}
	h := w.Header()
	maps.Copy(h, a.Header)
	h.Set(StateHeader, string(e.State))
	h.Set("Cache-Control", "no-store")
	if a.Truncated {
		h.Set(TruncatedHeader, "true")
	}
	if a.Status != http.StatusNoContent && a.Status != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	}
	w.WriteHeader(a.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(a.Body) // an error means that the client has disconnected
	}
}

func (q *Queue) openAnswer(e *Entry) (*Answer, error) {
	data, err := q.options.Keys.Open(e.ID, answerField, e.Answer)
	if err != nil {
		return nil, err
	}
	return DecodeAnswer(data)
}

// cancel answers DELETE.
func (q *Queue) cancel(ctx context.Context, w http.ResponseWriter, e *Entry) {
	state := e.State
	err := q.options.Storage.Change(ctx, e.ID, func(e *Entry) error {
		if state = e.State; state != Waiting || e.Sending {
			return errState
		}
		finish(e, Cancelled, time.Now())
		return nil
	})
	switch {
	case err == nil:
		w.Header().Set(StateHeader, string(Cancelled))
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, errState) && state == Cancelled:
		w.Header().Set(StateHeader, string(Cancelled))
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, errState):
		fault(w, http.StatusConflict, "sent", "the request cannot be cancelled: it is being sent, or was sent", state)
	case errors.Is(err, ErrUnknown):
		fault(w, http.StatusNotFound, "not_found", "no such request", "")
	default:
		q.unavailable(w, err)
	}
}

// finish gives a record its last state, to be kept from now on.
func finish(e *Entry, s State, now time.Time) {
	e.State, e.Claimer, e.Sending, e.Ended, e.At = s, "", false, now, now.Add(e.Keep)
}

// envelope is the body of an answer that is not the upstream's.
type envelope struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func fault(w http.ResponseWriter, status int, code, message string, s State) {
	var body envelope
	body.Error.Code, body.Error.Message = code, message
	if s != "" {
		w.Header().Set(StateHeader, string(s))
	}
	writeJSON(w, status, -1, body)
}
