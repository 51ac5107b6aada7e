package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxAge is how much older or newer than now a webhook may be.
const maxAge = 5 * time.Minute

// receiver is the program that gets the webhooks: it verifies each, and keeps the first of each ID.
type receiver struct {
	secret   []byte
	listener net.Listener
	server   *http.Server
	arrived  chan struct{} // has an element after something arrived

	mu     sync.Mutex // guards the fields below
	seen   map[string]bool
	events []string // the bodies, in the order in which they arrived
}

// newReceiver starts a receiver on this machine, and writes its secret into a file.
func newReceiver(file string) (*receiver, error) {
	r := &receiver{secret: make([]byte, 32), arrived: make(chan struct{}, 1), seen: map[string]bool{}}
	_, _ = rand.Read(r.secret) // it never fails
	if err := os.WriteFile(file, []byte("whsec_"+base64.StdEncoding.EncodeToString(r.secret)+"\n"), 0o600); err != nil {
		return nil, err
	}
	var err error
	if r.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = r.server.Serve(r.listener) }() // it ends with stop
	return r, nil
}

func (r *receiver) url() string { return "http://" + r.listener.Addr().String() + "/" }

func (r *receiver) stop() { _ = r.server.Close() }

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, 20<<10))
	id, at := req.Header.Get("webhook-id"), req.Header.Get("webhook-timestamp")
	if err != nil || !r.genuine(req.Header.Get("webhook-signature"), id, at, body) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	r.mu.Lock()
	if !r.seen[id] {
		r.seen[id] = true
		r.events = append(r.events, string(body))
	}
	r.mu.Unlock()
	select {
	case r.arrived <- struct{}{}:
	default: // wait looks anyway
	}
	w.WriteHeader(http.StatusNoContent)
}

// genuine reports whether one of the signatures is that of the body, and the webhook is new.
func (r *receiver) genuine(signatures, id, at string, body []byte) bool {
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > maxAge {
		return false
	}
	mac := hmac.New(sha256.New, r.secret)
	fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for given := range strings.FieldsSeq(signatures) {
		if hmac.Equal([]byte(given), []byte(want)) {
			return true
		}
	}
	return false
}

// wait returns the event that a subject has reached a threshold, once it has arrived.
func (r *receiver) wait(ctx context.Context, subject string, threshold int) (string, error) {
	for {
		r.mu.Lock()
		events := r.events
		r.mu.Unlock()
		for _, event := range events {
			var e struct {
				Data struct {
					Subject   string
					Threshold int
				}
			}
			if json.Unmarshal([]byte(event), &e) == nil && e.Data.Subject == subject && e.Data.Threshold == threshold {
				return event, nil
			}
		}
		select {
		case <-r.arrived:
		case <-ctx.Done():
			return "", errors.Join(fmt.Errorf("%d %% of %s did not arrive", threshold, subject), ctx.Err())
		}
	}
}
