package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"stint/gateway/queue"
)

// Path is the path of the records on the admin endpoint. An ID may follow, and then /retry.
const Path = "/stint/queue"

// defaultList is how many records a list has without a limit.
const defaultList = 100

// Handler serves operations: GET Path lists, GET Path/ID shows, POST Path/ID/retry retries, and DELETE
// Path/ID drops. It does not ask who is allowed to.
type Handler struct{ Operations Operations }

// ServeHTTP implements http.Handler.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v, err := h.serve(r)
	if err != nil {
		known, ok := errors.AsType[*Error](err)
		if !ok {
			known = &Error{http.StatusServiceUnavailable, err.Error(), "check the storage of the queue"}
		}
		writeJSON(w, known.Status, map[string]*Error{"error": known})
		return
	}
	writeJSON(w, http.StatusOK, v)
}

func (h Handler) serve(r *http.Request) (any, error) {
	ctx := r.Context()
	id, verb, _ := strings.Cut(strings.Trim(strings.TrimPrefix(r.URL.Path, Path), "/"), "/")
	switch {
	case id == "" && r.Method == http.MethodGet:
		limit := defaultList
		if text := r.URL.Query().Get("limit"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > MaxList {
				return nil, &Error{http.StatusBadRequest, fmt.Sprintf("limit=%s", text), fmt.Sprintf("write 1 to %d", MaxList)}
			}
			limit = n
		}
		items, err := h.Operations.List(ctx, queue.State(r.URL.Query().Get("state")), limit)
		return map[string][]Item{"records": items}, err
	case id != "" && verb == "" && r.Method == http.MethodGet:
		return h.Operations.Show(ctx, id)
	case id != "" && verb == "" && r.Method == http.MethodDelete:
		return struct{}{}, h.Operations.Drop(ctx, id)
	case id != "" && verb == "retry" && r.Method == http.MethodPost:
		return struct{}{}, h.Operations.Retry(ctx, id)
	}
	return nil, &Error{http.StatusMethodNotAllowed, r.Method + " " + r.URL.Path, "GET lists and shows, DELETE drops, POST .../retry retries"}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error means that the client has disconnected
}

// Remote operates on the queue of a running gateway, over its admin endpoint.
type Remote struct {
	// Client sends the requests.
	Client *http.Client

	// Base is the address, such as http://localhost:2019.
	Base string

	// Token is sent as a bearer token; "" for none.
	Token string
}

var _ Operations = (*Remote)(nil)

const (
	remoteTimeout = 30 * time.Second
	maxReply      = 256 << 20
)

// List implements Operations.
func (r *Remote) List(ctx context.Context, state queue.State, limit int) ([]Item, error) {
	var reply struct{ Records []Item }
	query := url.Values{"limit": {strconv.Itoa(min(limit, MaxList))}}
	if state != "" {
		query.Set("state", string(state))
	}
	err := r.call(ctx, http.MethodGet, "?"+query.Encode(), &reply)
	return reply.Records, err
}

// Show implements Operations.
func (r *Remote) Show(ctx context.Context, id string) (*Detail, error) {
	d := new(Detail)
	return d, r.call(ctx, http.MethodGet, "/"+url.PathEscape(id), d)
}

// Retry implements Operations.
func (r *Remote) Retry(ctx context.Context, id string) error {
	return r.call(ctx, http.MethodPost, "/"+url.PathEscape(id)+"/retry", new(struct{}))
}

// Drop implements Operations.
func (r *Remote) Drop(ctx context.Context, id string) error {
	return r.call(ctx, http.MethodDelete, "/"+url.PathEscape(id), new(struct{}))
}

func (r *Remote) call(ctx context.Context, method, rest string, reply any) error {
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, r.Base+Path+rest, nil)
	if err != nil {
		return &Error{0, err.Error(), "write the address as HOST:PORT"}
	}
	if r.Token != "" {
		request.Header.Set("Authorization", "Bearer "+r.Token)
	}
	response, err := r.Client.Do(request)
	if err != nil {
		return &Error{0, "no gateway at " + r.Base + ": " + err.Error(), "start it, name its admin endpoint with --address, or name the file or Redis of the queue with --queue"}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxReply))
	if err != nil {
		return err
	}
	if response.StatusCode == http.StatusOK {
		return json.Unmarshal(body, reply)
	}
	var fault struct{ Error *Error }
	if json.Unmarshal(body, &fault) == nil && fault.Error != nil && fault.Error.Problem != "" {
		fault.Error.Status = response.StatusCode
		if fault.Error.Hint == "" && (response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden) {
			fault.Error.Hint = "give --token-file FILE, with a token whose role allows this"
		}
		return fault.Error
	}
	if response.StatusCode == http.StatusNotFound {
		return &Error{response.StatusCode, "the gateway at " + r.Base + " has no queue", "add queue FILE or queue redis://... to its stint block"}
	}
	return &Error{response.StatusCode, fmt.Sprintf("the gateway at %s answered %s: %.200s", r.Base, response.Status, strings.TrimSpace(string(body))), "check its log"}
}
