package testkit

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echo starts a server that sends back all it receives.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				io.Copy(conn, conn) //nolint:errcheck // the test would notice missing bytes
			}()
		}
	}()
	return listener.Addr().String()
}

// dial connects to a proxy of an echo server.
func dial(t *testing.T, options ProxyOptions) (*TCPProxy, net.Conn) {
	t.Helper()
	p := StartProxy(t, echo(t), options)
	conn, err := net.Dial("tcp", p.Addr())
	Must(t, err)
	t.Cleanup(func() { conn.Close() })
	return p, conn
}

// roundTrip sends a message and returns how long its echo took.
func roundTrip(t *testing.T, conn net.Conn, message []byte) time.Duration {
	t.Helper()
	begin := time.Now()
	_, err := conn.Write(message)
	Must(t, err)
	got := make([]byte, len(message))
	_, err = io.ReadFull(conn, got)
	Must(t, err)
	if !bytes.Equal(got, message) {
		t.Fatalf("got %q, want %q", got, message)
	}
	return time.Since(begin)
}

func TestDelay(t *testing.T) {
	p, conn := dial(t, ProxyOptions{Delay: 3 * time.Millisecond})
	for range 10 {
		if took := roundTrip(t, conn, []byte("hello")); took < 6*time.Millisecond {
			t.Errorf("a round trip took %v, want 6ms or more", took)
		}
	}
	p.Set(ProxyOptions{})
	if took := roundTrip(t, conn, []byte("hello")); took > time.Second {
		t.Errorf("without a delay a round trip took %v", took)
	}
}

func TestProxyRate(t *testing.T) {
	_, conn := dial(t, ProxyOptions{Rate: 1 << 20})
	if took := roundTrip(t, conn, make([]byte, 20<<10)); took < 19*time.Millisecond { // 20/1024 s there, and the way back begins before its end
		t.Errorf("20 KiB took %v at a MiB a second", took)
	}
}

func TestJitterKeepsOrder(t *testing.T) {
	_, conn := dial(t, ProxyOptions{Jitter: 2 * time.Millisecond})
	var sent bytes.Buffer
	go func() {
		for i := range 200 {
			conn.Write([]byte{byte(i)}) //nolint:errcheck // the reader would notice missing bytes
		}
	}()
	for i := range 200 {
		sent.WriteByte(byte(i))
	}
	got := make([]byte, sent.Len())
	_, err := io.ReadFull(conn, got)
	Must(t, err)
	if !bytes.Equal(got, sent.Bytes()) {
		t.Errorf("out of order: %v", got)
	}
}

func TestBytewise(t *testing.T) {
	_, conn := dial(t, ProxyOptions{Bytewise: true})
	roundTrip(t, conn, bytes.Repeat([]byte("abc"), 100))
}

func TestStall(t *testing.T) {
	p, conn := dial(t, ProxyOptions{})
	roundTrip(t, conn, []byte("before"))
	p.Stall()
	_, err := conn.Write([]byte("held\n"))
	Must(t, err)
	Must(t, conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, error %v, in a stall", n, err)
	}
	p.Resume()
	Must(t, conn.SetReadDeadline(time.Time{}))
	if line, err := bufio.NewReader(conn).ReadString('\n'); line != "held\n" {
		t.Errorf("got %q, error %v, after a stall", line, err)
	}
}

func TestCut(t *testing.T) {
	p, conn := dial(t, ProxyOptions{})
	roundTrip(t, conn, []byte("before"))
	p.Cut()
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes of a connection that was cut", n)
	}
	again, err := net.Dial("tcp", p.Addr())
	Must(t, err)
	defer again.Close()
	roundTrip(t, again, []byte("after"))
}
