package transport

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stint/internal/testkit/programs"
	"stint/server/rls"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a server until the test ends and returns its address.
func serve(t *testing.T, s *Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Drain(context.Background(), 0, 0)
		if err := <-served; err != nil {
			t.Errorf("serving ended with %v", err)
		}
	})
	return l.Addr().String()
}

// A call that panics is answered with INTERNAL and logged, and the next call works.
func TestPanicIsAnswered(t *testing.T) {
	var log bytes.Buffer
	broken := rls.New(nil, rls.Options{}) // panics, because it has no limiter
	s := New(broken, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	c := programs.DialRLS(t, serve(t, s), nil)
	for range 3 {
		if _, err := c.Ask(t.Context(), "api", "user=x"); programs.StatusCode(err) != 13 || programs.StatusMessage(err) != "internal error" {
			t.Errorf("error %v, want INTERNAL", err)
		}
	}
	if n := strings.Count(log.String(), "a call panicked"); n != 3 {
		t.Errorf("%d panics are logged:\n%s", n, log.String())
	}
}

// The health status follows Ready, and is not serving as soon as Drain begins.
func TestHealth(t *testing.T) {
	s := New(rls.New(nil, rls.Options{}), Options{})
	c := programs.DialRLS(t, serve(t, s), nil)
	for _, ready := range []bool{false, true, false, true} {
		s.Ready(ready)
		for _, name := range healthNames {
			if healthy, err := c.Healthy(t.Context(), name); healthy != ready || err != nil {
				t.Errorf("%q is healthy: %v, want %v; error %v", name, healthy, ready, err)
			}
		}
	}
}

// Drain does not wait for a client that has sent nothing, or for one that ignores the request to
// disconnect.
func TestDrainOfTheSilentAndTheDeaf(t *testing.T) {
	const hello = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for name, said := range map[string]string{"silent": "", "disconnectGrace": hello} {
		t.Run(name, func(t *testing.T) {
			s := New(rls.New(nil, rls.Options{}), Options{})
			conn, err := net.Dial("tcp", serve(t, s))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.Write([]byte(said)); err != nil {
				t.Fatal(err)
			}
			if said != "" {
				// The settings of the server show that it has accepted the connection.
				if _, err := conn.Read(make([]byte, 9)); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if s.Drain(ctx, 0, 0) {
				t.Error("it was waited for until the end")
			}
		})
	}
}

// Drain of a server that never served returns at once, and a later Serve does nothing.
func TestDrainBeforeServe(t *testing.T) {
	s := New(rls.New(nil, rls.Options{}), Options{})
	if s.Drain(t.Context(), 0, 0) {
		t.Error("calls were cut")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != nil {
		t.Errorf("serving: %v", err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("the listener is left open")
	}
}
