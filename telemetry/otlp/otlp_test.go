package otlp_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stint"
	"stint/internal/testkit"
	"stint/internal/testkit/programs"
	"stint/internal/text"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
	"stint/telemetry/otlp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const rules = `domain: api
deny: [{key: user, values: [mallory], name: banned users}]
descriptors:
  - key: user
    rate_limit: {name: per-user, requests: 1, per: 366d}
`

// A caller's trace, as in a traceparent.
const (
	callerTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callerSpan  = "00f067aa0ba902b7"
	sampled     = "00-" + callerTrace + "-" + callerSpan + "-01"
	unsampled   = "00-" + callerTrace + "-" + callerSpan + "-00"
)

// setup is a limiter with an exporter that runs.
type setup struct {
	*otlp.Exporter
	limiter *limiter.Limiter
	log     *text.OutputBuffer
	reg     *prometheus.Registry
}

func start(t *testing.T, options otlp.Options) *setup {
	t.Helper()
	s := &setup{log: new(text.OutputBuffer), reg: prometheus.NewRegistry()}
	options.Log = slog.New(slog.NewTextHandler(s.log, nil))
	options.Version = "1.2.3"
	var err error
	s.Exporter, err = otlp.New(options)
	testkit.Must(t, err)
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(rules)})
	testkit.Must(t, err)
	s.limiter = limiter.New(s.Store(memory.New(memory.Options{}), "memory", "here"), table, limiter.Options{Tracer: s.Tracer()})
	s.Start(s.reg)
	t.Cleanup(func() { s.Stop(context.Background()) })
	return s
}

// decide decides a request of a user whose caller sent a traceparent.
func (s *setup) decide(t *testing.T, parent, domain, user string) {
	t.Helper()
	req := limiter.Request{Domain: domain, Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: "user", Value: user}}, Cost: 1}}}
	testkit.Must(t, s.limiter.Decide(otlp.Incoming(t.Context(), parent, ""), &req, new(limiter.Verdict)))
}

// A decision is a span of its caller's trace, with what was decided and without a key. The call to the
// store is a span below it.
func TestTraces(t *testing.T) {
	for _, protocol := range []string{"http", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			c := programs.StartCollector(t)
			s := start(t, otlp.Options{Endpoint: map[string]string{"http": c.HTTP, "grpc": c.GRPC}[protocol], Traces: true})
			s.decide(t, sampled, "api", "alice")
			s.decide(t, sampled, "api", "alice")
			s.decide(t, sampled, "api", "mallory")
			s.decide(t, sampled, "strange\xff", "alice")
			s.decide(t, unsampled, "api", "bob")
			s.decide(t, "", "api", "carol")
			s.Stop(t.Context())
			s.decide(t, sampled, "api", "dave") // after the end
			var got []string
			ids := map[string]string{callerSpan: "caller"}
			for _, span := range c.Spans() {
				if span.Name == "stint.decide" {
					ids[span.ID] = "decide"
				}
			}
			for _, span := range c.Spans() {
				if span.Trace != callerTrace {
					t.Errorf("%s is in the trace %s", span.Name, span.Trace)
				}
				if span.Resource["service.name"] != "stint" || span.Resource["service.version"] != "1.2.3" {
					t.Errorf("the resource is %v", span.Resource)
				}
				got = append(got, fmt.Sprintf("%s %s of %s %v", span.Name, span.Kind, ids[span.Parent], span.Attributes))
			}
			want := []string{
				"stint.store client of decide map[db.system.name:memory stint.store:here stint.takes:1]",
				"stint.decide server of caller map[stint.domain:api stint.limit:1 stint.outcome:allowed stint.remaining:0 stint.rule:per-user]",
				"stint.store client of decide map[db.system.name:memory stint.store:here stint.takes:1]",
				"stint.decide server of caller map[stint.domain:api stint.limit:1 stint.outcome:denied stint.reason:rate_limited stint.remaining:0 stint.rule:per-user]",
				"stint.decide server of caller map[stint.domain:api stint.list:banned users stint.outcome:denied stint.reason:denied]",
				"stint.decide server of caller map[stint.domain:strange\uFFFD stint.outcome:allowed stint.unmatched:true]",
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			for _, user := range []string{"alice", "mallory"} {
				if strings.Contains(c.Text(), user) {
					t.Errorf("the collector has the key %s:\n%s", user, c.Text())
				}
			}
			if log := s.log.String(); log != "" {
				t.Error(log)
			}
		})
	}
}

// brokenStore fails with an error that has the key.
type brokenStore struct{}

func (brokenStore) Decide(_ context.Context, call *stint.Call) error {
	return fmt.Errorf("cannot read %s: %w", call.Takes[0].Key, context.DeadlineExceeded)
}

// A decision without an answer failed, and so did the call to the store. Neither has the error's text.
func TestFailures(t *testing.T) {
	c := programs.StartCollector(t)
	s := start(t, otlp.Options{Endpoint: c.HTTP, Traces: true})
	l := limiter.New(s.Store(brokenStore{}, "redis", "here"), s.limiter.Table(), limiter.Options{Tracer: s.Tracer()})
	req := limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: "user", Value: "alice"}}, Cost: 1}}}
	if err := l.Decide(otlp.Incoming(t.Context(), sampled, ""), &req, new(limiter.Verdict)); err == nil {
		t.Fatal("no error")
	}
	s.Stop(t.Context())
	var got []string
	for _, span := range c.Spans() {
		got = append(got, fmt.Sprintf("%s %v %s %s", span.Name, span.Failed, span.Status, span.Attributes["stint.outcome"]))
	}
	if want := "[stint.store true timeout  stint.decide true no decision error]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	if strings.Contains(c.Text(), "alice") {
		t.Errorf("the collector has the key:\n%s", c.Text())
	}
}

// Without a caller's trace a decision is traced by chance, and begins a trace.
func TestSample(t *testing.T) {
	c := programs.StartCollector(t)
	s := start(t, otlp.Options{Endpoint: c.HTTP, Traces: true, Tracer: otlp.TracerOptions{Sample: 0.5}})
	for range 200 {
		s.decide(t, "", "other", "x")
	}
	s.decide(t, unsampled, "other", "x")
	s.Stop(t.Context())
	n := len(c.Spans())
	if n < 50 || n > 150 {
		t.Errorf("%d of 200 decisions were traced, want about half", n)
	}
	for _, span := range c.Spans() {
		if span.Parent != "" || span.Trace == callerTrace {
			t.Errorf("a parent: %+v", span)
		}
	}
}

// The header of a request names the parent.
func TestHandler(t *testing.T) {
	c := programs.StartCollector(t)
	s := start(t, otlp.Options{Endpoint: c.HTTP, Traces: true})
	handler := s.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		req := limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: "user", Value: "x"}}, Cost: 1}}}
		testkit.Must(t, s.limiter.Decide(r.Context(), &req, new(limiter.Verdict)))
	}))
	for _, parent := range []string{sampled, "00-nonsense", ""} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header.Set("Traceparent", parent)
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	s.Stop(t.Context())
	if spans := c.Spans(); len(spans) != 2 || spans[1].Parent != callerSpan {
		t.Errorf("%+v", spans)
	}
}

// Metrics are those of the registry, in intervals and at the end.
func TestMetrics(t *testing.T) {
	for _, protocol := range []string{"http", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			c := programs.StartCollector(t)
			s := start(t, otlp.Options{Endpoint: map[string]string{"http": c.HTTP, "grpc": c.GRPC}[protocol], Interval: 10 * time.Millisecond})
			if s.Tracer() != nil {
				t.Error("a tracer although traces are off")
			}
			counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_test_total"}, []string{"verdict"})
			s.reg.MustRegister(counter)
			counter.WithLabelValues("denied").Add(3)
			testkit.Until(t, "the collector has the metric", func() bool { return fmt.Sprint(c.Metric("stint_test_total")) == "[{map[verdict:denied] 3}]" })
			counter.WithLabelValues("denied").Add(1)
			s.Stop(t.Context())
			if got := fmt.Sprint(c.Metric("stint_test_total")); got != "[{map[verdict:denied] 4}]" {
				t.Error(got)
			}
		})
	}
}

// While the collector is away no decision waits for it, the memory is bounded, and the log has one
// line; when it is back another one.
func TestCollectorAway(t *testing.T) {
	c := programs.StartCollector(t)
	var back atomic.Bool
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !back.Load() {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		forward, err := http.NewRequestWithContext(r.Context(), r.Method, c.HTTP+r.URL.Path, r.Body)
		testkit.Must(t, err)
		forward.Header = r.Header
		resp, err := http.DefaultTransport.RoundTrip(forward)
		if r.Context().Err() != nil {
			return // Stop gave it up
		}
		testkit.Must(t, err)
		testkit.Must(t, resp.Body.Close())
	}))
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	t.Cleanup(front.Close)
	s := start(t, otlp.Options{Endpoint: front.URL, Traces: true, Interval: 10 * time.Millisecond, Tracer: otlp.TracerOptions{Sample: 1, Most: 1 << 31}})
	before := testkit.Heap()
	for range 50_000 {
		s.decide(t, "", "other", "x")
	}
	if grown := testkit.Heap() - before; grown > 32<<20 {
		t.Errorf("%d MiB for traces", grown>>20)
	}
	testkit.Until(t, "both are reported", func() bool { return strings.Count(s.log.String(), "cannot send") == 2 })
	back.Store(true)
	testkit.Until(t, "both are sent again", func() bool {
		s.decide(t, "", "other", "x")
		return strings.Count(s.log.String(), "again") == 2
	})
	s.Stop(t.Context())
	if log := s.log.String(); strings.Count(log, "\n") != 4 {
		t.Errorf("not four lines:\n%s", log)
	}
	if len(c.Spans()) == 0 {
		t.Error("no span arrived")
	}
}

// Metrics that are being sent when the service stops are given up and sent again: the collector is not
// blamed.
func TestStopWhileSending(t *testing.T) {
	arrived := make(chan struct{}, 1)
	var requests atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > 1 {
			return
		}
		_, err := io.Copy(io.Discard, r.Body) // else the end of the connection is not seen
		testkit.Must(t, err)
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(front.Close)
	s := start(t, otlp.Options{Endpoint: front.URL, Interval: 10 * time.Millisecond})
	<-arrived
	s.Stop(t.Context())
	if log := s.log.String(); log != "" || requests.Load() != 2 {
		t.Errorf("%d requests, and the log:\n%s", requests.Load(), log)
	}
}

// A collector that accepts connections and never answers delays no decision, and the end by no more than
// two seconds: the other timeouts, of an hour, play no part.
func TestCollectorSilent(t *testing.T) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_BSP_EXPORT_TIMEOUT", "OTEL_METRIC_EXPORT_TIMEOUT"} {
		t.Setenv(name, "3600000")
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { silent.Close() })
	for _, scheme := range []string{"http", "grpc"} {
		s := start(t, otlp.Options{Endpoint: scheme + "://" + silent.Addr().String(), Traces: true, Interval: time.Minute, Tracer: otlp.TracerOptions{Sample: 1, Most: 1 << 31}})
		ended := make(chan struct{})
		go func() {
			for range 10_000 {
				s.decide(t, "", "other", "x")
			}
			s.Stop(context.Background())
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("it waits for the collector")
		}
	}
}

// A nil exporter changes nothing.
func TestNil(t *testing.T) {
	var e *otlp.Exporter
	store := memory.New(memory.Options{})
	next := http.NotFoundHandler()
	if e.Tracer() != nil || e.Incoming() != nil || e.Store(store, "", "") != stint.Store(store) || fmt.Sprint(e.Handler(next)) != fmt.Sprint(next) {
		t.Error("not what was given")
	}
	e.Start(nil)
	e.Stop(t.Context())
}
