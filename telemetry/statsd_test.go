package telemetry

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
)

// sentCounters are totals in order.
type sentCounters []struct {
	name  string
	total uint64
}

func (c sentCounters) each(yield func(string, uint64)) {
	for _, one := range c {
		yield(one.name, one.total)
	}
}

// Over UDP the increases of counters are sent, as many as fit into a packet.
func TestUDP(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer l.Close()
	receive := func() string {
		buffer := make([]byte, 64<<10)
		testkit.Must(t, l.SetReadDeadline(time.Now().Add(10*time.Second)))
		n, _, err := l.ReadFrom(buffer)
		testkit.Must(t, err)
		return string(buffer[:n])
	}
	for _, test := range []struct {
		scheme string
		tags   []string
		want   string
	}{
		{"udp", nil, "a.b:3|c\nc:1|c\n"},
		{"udp", []string{"x:1", "y:2"}, "a.b.__x=1.__y=2:3|c\nc.__x=1.__y=2:1|c\n"},
		{"dogstatsd", nil, "a.b:3|c\nc:1|c\n"},
		{"dogstatsd", []string{"x:1", "y:2"}, "a.b:3|c|#x:1,y:2\nc:1|c|#x:1,y:2\n"},
	} {
		s := NewStatsD(test.scheme+"://"+l.LocalAddr().String(), test.tags, slog.New(slog.DiscardHandler))
		s.Send(t.Context(), sentCounters{{"a.b", 3}, {"zero", 0}, {"c", 1}}.each)
		if got := receive(); got != test.want {
			t.Errorf("%s %v: %q, want %q", test.scheme, test.tags, got, test.want)
		}
		s.Send(t.Context(), sentCounters{{"a.b", 3}, {"c", 1}}.each) // no increase: nothing is sent
		s.Send(t.Context(), sentCounters{{"a.b", 5}, {"c", 1}}.each)
		if got := receive(); !strings.HasPrefix(got, "a.b") || !strings.Contains(got, ":2|c") || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: then %q", test.scheme, got)
		}
		s.Close()
	}
	var many sentCounters
	for i := range 100 {
		many = append(many, struct {
			name  string
			total uint64
		}{fmt.Sprintf("a.rather.long.name.of.a.counter.number.%d", i), 1})
	}
	s := NewStatsD("udp://"+l.LocalAddr().String(), nil, slog.New(slog.DiscardHandler))
	defer s.Close()
	s.Send(t.Context(), many.each)
	for lines := 0; lines < len(many); {
		got := receive()
		if len(got) > packet || !strings.HasSuffix(got, "\n") {
			t.Fatalf("a packet of %d bytes that ends in %q", len(got), got[len(got)-5:])
		}
		lines += strings.Count(got, "\n")
	}
}

// Over TCP, data that could not be sent is sent later, and the failure is logged once.
func TestTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	address := l.Addr().String()
	testkit.Must(t, l.Close())
	var log bytes.Buffer
	s := NewStatsD("tcp://"+address, nil, slog.New(slog.NewTextHandler(&log, nil)))
	for range 3 {
		s.Send(t.Context(), sentCounters{{"a", 3}}.each)
	}
	if n := strings.Count(log.String(), "statistics cannot be sent"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
	l, err = net.Listen("tcp", address)
	testkit.Must(t, err)
	defer l.Close()
	s.Send(t.Context(), sentCounters{{"a", 4}}.each)
	conn, err := l.Accept()
	testkit.Must(t, err)
	s.Send(t.Context(), sentCounters{{"a", 5}}.each)
	s.Close()
	got, err := io.ReadAll(conn)
	testkit.Must(t, err)
	if string(got) != "a:4|c\na:1|c\n" {
		t.Errorf("%q", got)
	}
	if !strings.Contains(log.String(), "are sent to StatsD again") {
		t.Errorf("the log does not say that it is well again:\n%s", log.String())
	}
}
