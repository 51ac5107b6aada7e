package programs

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracespb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	onemetricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"stint/internal/testkit"
)

// Collector receives traces and metrics. Its fields do not change.
type Collector struct {
	HTTP string // endpoint, a URL
	GRPC string // endpoint, a URL with the scheme grpc

	mu      sync.Mutex
	spans   []Span
	metrics map[string][]Point
	text    strings.Builder
	calls   int
}

// Span is a part of a trace. IDs are in hexadecimal, and empty if there are none.
type Span struct {
	Name, Kind        string
	Trace, ID, Parent string
	Attributes        map[string]string
	Resource          map[string]string
	Failed            bool
	Status            string // why it failed
}

// Point is the last value of one series of a metric; of a histogram, how often something was measured.
type Point struct {
	Attributes map[string]string
	Value      float64
}

// StartCollector starts a collector until the test ends.
func StartCollector(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{metrics: map[string][]Point{}}
	web := httptest.NewServer(http.HandlerFunc(c.serveHTTP))
	t.Cleanup(web.Close)
	c.HTTP = web.URL
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	s := grpc.NewServer()
	tracespb.RegisterTraceServiceServer(s, &traces{collector: c})
	metricspb.RegisterMetricsServiceServer(s, &metrics{collector: c})
	go s.Serve(listener) //nolint:errcheck // it ends with the test
	t.Cleanup(s.Stop)
	c.GRPC = "grpc://" + listener.Addr().String()
	return c
}

// Spans returns the spans that were received.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Metric returns the last points of a metric.
func (c *Collector) Metric(name string) []Point {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.metrics[name]
}

// Text returns all that was received, to search in.
func (c *Collector) Text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// Calls returns how many messages were received.
func (c *Collector) Calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

func (c *Collector) serveHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var into, answer proto.Message = new(tracespb.ExportTraceServiceRequest), new(tracespb.ExportTraceServiceResponse)
	switch r.URL.Path {
	case "/v1/traces":
	case "/v1/metrics":
		into, answer = new(metricspb.ExportMetricsServiceRequest), new(metricspb.ExportMetricsServiceResponse)
	default:
		http.NotFound(w, r)
		return
	}
	if err := proto.Unmarshal(body, into); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.add(into)
	data, err := proto.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(data)
}

type traces struct {
	tracespb.UnimplementedTraceServiceServer
	collector *Collector
}

// Export implements the collector's protocol.
func (s *traces) Export(_ context.Context, r *tracespb.ExportTraceServiceRequest) (*tracespb.ExportTraceServiceResponse, error) {
	s.collector.add(r)
	return new(tracespb.ExportTraceServiceResponse), nil
}

type metrics struct {
	metricspb.UnimplementedMetricsServiceServer
	collector *Collector
}

// Export implements the collector's protocol.
func (s *metrics) Export(_ context.Context, r *metricspb.ExportMetricsServiceRequest) (*metricspb.ExportMetricsServiceResponse, error) {
	s.collector.add(r)
	return new(metricspb.ExportMetricsServiceResponse), nil
}

func (c *Collector) add(message proto.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	fmt.Fprintln(&c.text, message)
	switch m := message.(type) {
	case *tracespb.ExportTraceServiceRequest:
		c.addTracesLocked(m)
	case *metricspb.ExportMetricsServiceRequest:
		for _, r := range m.GetResourceMetrics() {
			for _, scope := range r.GetScopeMetrics() {
				for _, one := range scope.GetMetrics() {
					c.metrics[one.GetName()] = points(one)
				}
			}
		}
	}
}

func (c *Collector) addTracesLocked(m *tracespb.ExportTraceServiceRequest) {
	for _, r := range m.GetResourceSpans() {
		for _, scope := range r.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, Span{
					Name: s.GetName(), Kind: strings.ToLower(strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_")),
					Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
					Attributes: attributes(s.GetAttributes()), Resource: attributes(r.GetResource().GetAttributes()),
					Failed: s.GetStatus().GetCode() == 2, Status: s.GetStatus().GetMessage(),
				})
			}
		}
	}
}

func points(m *onemetricpb.Metric) (all []Point) {
	for _, p := range append(m.GetSum().GetDataPoints(), m.GetGauge().GetDataPoints()...) {
		all = append(all, Point{attributes(p.GetAttributes()), p.GetAsDouble() + float64(p.GetAsInt())}) // one is 0
	}
	for _, p := range m.GetHistogram().GetDataPoints() {
		all = append(all, Point{attributes(p.GetAttributes()), float64(p.GetCount())})
	}
	return all
}

func attributes(list []*commonpb.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range list {
		switch v := a.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			all[a.GetKey()] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			all[a.GetKey()] = fmt.Sprint(v.IntValue)
		case *commonpb.AnyValue_BoolValue:
			all[a.GetKey()] = fmt.Sprint(v.BoolValue)
		}
	}
	return all
}
