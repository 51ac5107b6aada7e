package httpdrain

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// A call in flight is answered, a connection that says nothing is closed, and a call that
// takes too long is cut.
func TestDrain(t *testing.T) {
	for name, patience := range map[string]time.Duration{"answered": 20 * time.Second, "cut": 50 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			entered, leave := make(chan struct{}), make(chan struct{})
			s := New(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				close(entered)
				<-leave
				fmt.Fprint(w, "done")
			}), ReadHeaderTimeout: time.Minute})
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- s.Serve(l) }()
			silent, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			answered := make(chan string, 1)
			go func() { answered <- get("http://" + l.Addr().String()) }()
			<-entered
			s.Ready(false)
			if name == "answered" {
				time.AfterFunc(20*time.Millisecond, func() { close(leave) })
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if cut := s.Drain(ctx, time.Now()); cut != (name == "cut") {
				t.Errorf("cut: %v", cut)
			}
			if name == "cut" {
				close(leave)
			}
			if got := <-answered; (got == "done") != (name == "answered") {
				t.Errorf("the call in flight got %q", got)
			}
			if err := <-served; err != nil {
				t.Errorf("serving ended with %v", err)
			}
		})
	}
}

func get(url string) string {
	resp, err := http.Get(url) //nolint:gosec // of this test
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}
