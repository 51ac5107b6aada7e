package resp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
)

// A client that sends a command byte by byte, or commands but no AUTH, has one time for all of it. One
// that sends command after command, each in parts, may go on.
func TestSlowClients(t *testing.T) {
	const part = time.Second
	send := func(address, first, again string) (lived time.Duration) {
		c := dial(t, address)
		testkit.Must(t, c.SetReadDeadline(time.Now().Add(6*part)))
		began := time.Now()
		go func() {
			_, err := io.WriteString(c, first)
			for until := began.Add(7 * part); err == nil && time.Now().Before(until); {
				time.Sleep(part / 4) // a slow client
				_, err = io.WriteString(c, again)
			}
		}()
		_, _ = io.Copy(io.Discard, c) // until it ends, one way or another
		return time.Since(began)
	}
	for _, tt := range []struct {
		name, token, first, again string
		cut                       bool
	}{
		{"a slow argument", "", "*1\r\n$10000\r\n", "x", true},
		{"a slow line", "", "PING ", "x", true},
		{"no AUTH", "secret", "", "*1\r\n$4\r\nPING\r\n", true},
		{"RESET and no AUTH", "secret", "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n*1\r\n$5\r\nRESET\r\n", "*1\r\n$4\r\nPING\r\n", true},
		{"commands in parts", "", "*1\r\n$4\r\nPI", "NG\r\n*1\r\n$4\r\nPI", false},
		{"silent after AUTH", "secret", "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			address, _, _ := start(t, Options{Token: tt.token, partTimeout: part})
			lived := send(address, tt.first, tt.again)
			if cut := lived < 5*part; cut != tt.cut {
				t.Errorf("cut: %v after %v, want %v", cut, lived, tt.cut)
			}
		})
	}
}

// A client that never pauses, and reads slowly, gets the answer of everything that it is charged for before a
// server that stops ends its connection. It is not charged for the rest.
func TestDrainOfPipelines(t *testing.T) {
	const bucket = 999_999
	address, s, _ := start(t, Options{})
	c := dial(t, address)
	testkit.Must(t, c.Conn.(*net.TCPConn).SetReadBuffer(4<<10))
	pipeline := strings.Repeat(wire("CL.THROTTLE", "busy", fmt.Sprint(bucket), "1", "60"), 16)
	writing := make(chan struct{})
	go func() {
		defer close(writing)
		for range 10_000 {
			if _, err := io.WriteString(c, pipeline); err != nil {
				return
			}
			time.Sleep(time.Millisecond) // a rate that the server can follow
		}
	}()
	time.AfterFunc(200*time.Millisecond, func() { s.Drain(t.Context(), 0, time.Second) })
	answers := 0
	for part := make([]byte, 4<<10); ; {
		n, err := c.Read(part)
		answers += bytes.Count(part[:n], []byte("*"))
		if errors.Is(err, io.EOF) {
			break
		}
		testkit.Must(t, err)
		time.Sleep(2 * time.Millisecond) // a slow client
	}
	testkit.Must(t, c.Close())
	<-writing

	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	next := New(s.limiter, Options{})
	go func() { _ = next.Serve(l) }() // an error is seen below
	defer next.Drain(t.Context(), 0, 0)
	var used int
	got := dial(t, l.Addr().String()).send(fmt.Sprintf("CL.THROTTLE busy %d 1 60 0", bucket))
	_, err = fmt.Sscanf(got, "(0 1000000 %d", &used)
	testkit.Must(t, err)
	if used = bucket + 1 - used; used != answers || answers == 0 {
		t.Errorf("%d units are charged, %d commands are answered", used, answers)
	}
}
