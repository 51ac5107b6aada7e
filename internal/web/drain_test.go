package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"stint/internal/testkit"
)

// Drain waits for a call in progress, closes an idle connection, and aborts a call that takes too
// long.
func TestDrain(t *testing.T) {
	for name, patience := range map[string]time.Duration{"answered": 20 * time.Second, "cut": 50 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			entered, leave := make(chan struct{}), make(chan struct{})
			s := NewDrainer(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
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
			if cut := s.Drain(ctx, 0, 0); cut != (name == "cut") {
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

// After Ready(false) each response announces the end of its connection, however the handler writes
// it and even if the request came before. Idle connections stay open for their next call until
// Drain.
func TestEndIsAnnounced(t *testing.T) {
	entered, leave := make(chan struct{}, 1), make(chan struct{})
	s := NewDrainer(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			entered <- struct{}{}
			<-leave
			fmt.Fprint(w, "slow")
		case "/status":
			w.WriteHeader(http.StatusTeapot)
		case "/flush":
			w.(http.Flusher).Flush()
			fmt.Fprint(w, "flushed")
		}
	}), ReadHeaderTimeout: time.Minute})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	paths := []string{"/", "/slow", "/status", "/flush"}
	var conns []*keptAlive
	for range paths {
		c := dial(t, l.Addr().String())
		if resp := c.ask(t, "/"); resp.Close {
			t.Fatal("a connection ends before the end")
		}
		conns = append(conns, c)
	}
	if n := s.connections(); n != len(paths) {
		t.Errorf("%d connections are open, want %d", n, len(paths))
	}
	conns[1].send(t, "/slow")
	<-entered
	s.Ready(false)
	close(leave)
	for i, path := range paths {
		if path != "/slow" {
			conns[i].send(t, path)
		}
		if resp := conns[i].receive(t); !resp.Close {
			t.Errorf("%s: the end is not announced: %v", path, resp.Header)
		}
	}
	if fresh := dial(t, l.Addr().String()).ask(t, "/"); !fresh.Close {
		t.Error("the end is not announced on a new connection")
	}
	if s.Drain(t.Context(), 0, 0) {
		t.Error("calls were cut")
	}
	testkit.Must(t, <-served)
}

// lagging is a listener whose Accept returns late after Close: only after a second Close.
type lagging struct {
	net.Listener
	closes atomic.Int32
	again  chan struct{}
}

func (l *lagging) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.again
	}
	return c, err
}

func (l *lagging) Close() error {
	if l.closes.Add(1) == 2 {
		close(l.again)
	}
	return l.Listener.Close()
}

// A listener whose Accept returns late causes no aborted calls.
func TestDrainBeforeServeEnds(t *testing.T) {
	s := NewDrainer(&http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute})
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	l := &lagging{Listener: raw, again: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	dial(t, raw.Addr().String()).ask(t, "/")
	if s.Drain(t.Context(), 0, 0) {
		t.Error("calls were cut")
	}
	testkit.Must(t, <-served)
}

// While it lingers, a server accepts no new connection but still answers on the open ones, until
// all of them have ended.
func TestDrainLingers(t *testing.T) {
	s := NewDrainer(&http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	idle, fresh := dial(t, l.Addr().String()), dial(t, l.Addr().String())
	idle.ask(t, "/")
	for s.connections() < 2 { // the server has accepted both
		time.Sleep(time.Millisecond) // there is no event to wait for
	}
	drained := make(chan bool, 1)
	go func() { drained <- s.Drain(t.Context(), time.Minute, time.Minute) }()
	testkit.Must(t, <-served) // the listener is closed
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("a connection is accepted at the end")
	}
	for name, c := range map[string]*keptAlive{"idle": idle, "fresh": fresh} {
		if !c.ask(t, "/").Close {
			t.Errorf("%s: the end is not announced", name)
		}
	}
	if <-drained {
		t.Error("calls were cut")
	}
}

// keptAlive is a connection for several calls.
type keptAlive struct {
	net.Conn
	answers *bufio.Reader
}

func dial(t *testing.T, addr string) *keptAlive {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	testkit.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	testkit.Must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return &keptAlive{conn, bufio.NewReader(conn)}
}

func (c *keptAlive) send(t *testing.T, path string) {
	t.Helper()
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
	testkit.Must(t, err)
}

func (c *keptAlive) receive(t *testing.T) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(c.answers, nil)
	testkit.Must(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	testkit.Must(t, errors.Join(err, resp.Body.Close()))
	return resp
}

func (c *keptAlive) ask(t *testing.T, path string) *http.Response {
	t.Helper()
	c.send(t, path)
	return c.receive(t)
}

func get(url string) string {
	resp, err := http.Get(url) //nolint:gosec // the test's own URL
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
