package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Deliver sends the request of a record to the upstream and returns its answer. The body of the answer is
// read and closed by the caller. An error means that there is no answer.
type Deliver func(ctx context.Context, record *Record, r *http.Request) (*http.Response, error)

// maxAnswer is how many bytes of the body of an answer are kept.
const maxAnswer = 64 << 10

// Request returns the request to send.
func (r *Record) Request(ctx context.Context, s *Signer, now time.Time) (*http.Request, error) {
	u, err := ParseURI(r.URI)
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", r.ID, err)
	}
	u.Scheme, u.Host = r.Scheme, r.Host
	bare := url.URL{Scheme: u.Scheme, Host: u.Host} // the query may have bytes that NewRequest refuses
	request, err := http.NewRequestWithContext(context.WithValue(ctx, deliveringKey{}, r), r.Method, bare.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", r.ID, err)
	}
	request.URL, request.Host, request.Header = u, r.Host, r.Header.Clone()
	if request.Header == nil {
		request.Header = http.Header{}
	}
	if r.Client.IsValid() {
		request.RemoteAddr = net.JoinHostPort(r.Client.String(), "0")
	}
	request.Header.Set(idempotencyHeader, r.IdempotencyKey)
	token, err := s.Sign(r, now)
	if err != nil {
		return nil, fmt.Errorf("record %s: signing its identity: %w", r.ID, err)
	}
	if token != "" {
		request.Header.Set(IdentityHeader, token)
	}
	return request, nil
}

// readAnswer reads an answer of the upstream. An answer that ends early is no answer.
func readAnswer(response *http.Response) (*Answer, error) {
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, err
	}
	a := &Answer{Status: response.StatusCode, Header: answerHeader(response.Header), Body: body}
	if len(body) > maxAnswer {
		a.Body, a.Truncated = body[:maxAnswer], true
	}
	return a, nil
}

// again reports whether an answer with this status means that the request is to be sent again.
func again(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// The times between tries: the first, and the longest.
const (
	firstPause   = time.Second
	longestPause = 5 * time.Minute
)

// pauseAfter returns how long to wait after a number of tries.
func pauseAfter(tries int) time.Duration {
	d := firstPause
	for i := 1; i < tries && d < longestPause; i++ {
		d *= 2
	}
	return min(d, longestPause)
}

// errHandler means that a handler ended without an answer.
var errHandler = errors.New("the handler ended without an answer")

// ServeTo returns the answer of a handler to a request. It keeps as much of the body as is needed.
func ServeTo(serve func(http.ResponseWriter, *http.Request) error, r *http.Request) (*http.Response, error) {
	w := &memoryWriter{header: http.Header{}}
	if err := recovering(func() error { return serve(w, r) }); err != nil {
		return nil, err
	}
	if w.status == 0 {
		if r.Context().Err() != nil {
			return nil, errors.Join(errHandler, r.Context().Err())
		}
		w.WriteHeader(http.StatusOK)
	}
	return &http.Response{StatusCode: w.status, Header: w.sent, Body: io.NopCloser(&w.body), Request: r}, nil
}

// recovering calls a handler, and returns a panic as an error: a proxy panics if the upstream ends in the
// middle of its answer.
func recovering(serve func() error) (err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			err = errHandler
		default:
			err = fmt.Errorf("the handler panicked: %v", p)
		}
	}()
	return serve()
}

// memoryWriter is a ResponseWriter in memory.
type memoryWriter struct {
	header, sent http.Header
	status       int
	body         bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *memoryWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *memoryWriter) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status, w.sent = status, w.header.Clone()
	}
}

// Write implements http.ResponseWriter. It drops what nobody keeps.
func (w *memoryWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body.Write(b[:min(len(b), max(0, maxAnswer+1-w.body.Len()))])
	return len(b), nil
}

// Flush implements http.Flusher.
func (w *memoryWriter) Flush() { w.WriteHeader(http.StatusOK) }
