package telemetry

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// StatsDSchemes are the URL schemes that NewStatsD accepts: UDP, TCP, and UDP with tags in the
// format of DogStatsD.
var StatsDSchemes = []string{"udp", "tcp", "dogstatsd"}

const (
	// packet is the maximum size of a UDP packet in bytes; it fits into an Ethernet frame.
	packet = 1432

	// sendTimeout is the timeout for sending.
	sendTimeout = 2 * time.Second
)

// StatsD sends counters to one address, as lines of text over UDP or TCP. It must not be used by
// several goroutines at once. The format is one line NAME:DELTA|c for each counter, which needs no
// client library.
//
// Over TCP, what could not be sent is sent the next time: nothing is lost, and at most the data
// that a broken connection had accepted is counted twice. Over UDP, lost packets are not noticed.
type StatsD struct {
	network, address string
	tags             []string // NAME:VALUE
	dog              bool
	log              *slog.Logger

	conn   net.Conn
	sent   map[string]uint64 // value last sent of each counter
	failed bool              // the last attempt failed; logged once
}

// NewStatsD returns a sender to a URL with one of the StatsDSchemes. It connects when there is
// something to send. The tags, NAME:VALUE, are added to every counter: in StatsD to its name as
// NAME.__TAG=VALUE, in DogStatsD after the value.
func NewStatsD(target string, tags []string, log *slog.Logger) *StatsD {
	s := &StatsD{network: "udp", tags: tags, log: log, sent: make(map[string]uint64)}
	if u, err := url.Parse(target); err == nil {
		s.address, s.dog = u.Host, u.Scheme == "dogstatsd"
		if u.Scheme == "tcp" {
			s.network = "tcp"
		}
	}
	return s
}

// Send sends the increase of each counter since it was last sent.
func (s *StatsD) Send(ctx context.Context, counters func(yield func(name string, total uint64))) {
	var out bytes.Buffer
	pending := make(map[string]uint64)
	var err error
	counters(func(name string, total uint64) {
		before := s.sent[name]
		if total <= before || err != nil {
			return
		}
		line := s.line(name, total-before)
		if s.network == "udp" && out.Len()+len(line) > packet {
			err = s.write(ctx, &out, pending)
		}
		out.WriteString(line)
		pending[name] = total
	})
	if err == nil && out.Len() > 0 {
		err = s.write(ctx, &out, pending)
	}
	s.report(err)
}

// line returns the line of one counter.
func (s *StatsD) line(name string, delta uint64) string {
	var b strings.Builder
	b.WriteString(name)
	for _, tag := range s.tags {
		if key, value, _ := strings.Cut(tag, ":"); !s.dog {
			b.WriteString(".__" + key + "=" + value)
		}
	}
	b.WriteString(":" + strconv.FormatUint(delta, 10) + "|c")
	if s.dog && len(s.tags) > 0 {
		b.WriteString("|#" + strings.Join(s.tags, ","))
	}
	b.WriteByte('\n')
	return b.String()
}

// write sends the data in out, and records that the counters in pending were sent.
func (s *StatsD) write(ctx context.Context, out *bytes.Buffer, pending map[string]uint64) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	var err error
	if s.conn == nil {
		var dialer net.Dialer
		if s.conn, err = dialer.DialContext(ctx, s.network, s.address); err != nil {
			s.conn = nil
			return err
		}
	}
	if deadline, ok := ctx.Deadline(); ok {
		err = s.conn.SetWriteDeadline(deadline)
	}
	if err == nil {
		_, err = s.conn.Write(out.Bytes())
	}
	if err != nil {
		s.Close()
		return err
	}
	maps.Copy(s.sent, pending)
	clear(pending)
	out.Reset()
	return nil
}

// report logs once that sending fails, and once that it works again.
func (s *StatsD) report(err error) {
	switch {
	case err != nil && !s.failed:
		s.log.Warn("statistics cannot be sent to StatsD; will try again", "address", s.address, "network", s.network, "error", err,
			"hint", "check the setting statsd, or leave it empty")
	case err == nil && s.failed:
		s.log.Info("statistics are sent to StatsD again", "address", s.address)
	}
	s.failed = err != nil
}

// Close closes the connection.
func (s *StatsD) Close() {
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}
