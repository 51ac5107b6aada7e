package telemetry_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"stint/telemetry"
)

// TestCollectors checks that the metrics of a service can be served by one registry after another, and
// by its own handler.
func TestCollectors(t *testing.T) {
	all := new(telemetry.Collectors)
	m := telemetry.New(all)
	m.Built("v1")
	extra := prometheus.NewGauge(prometheus.GaugeOpts{Name: "extra"})
	all.MustRegister(extra)
	for range 2 {
		reg := prometheus.NewPedanticRegistry()
		if err := reg.Register(all); err != nil {
			t.Fatal(err)
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range families {
			names = append(names, f.GetName())
		}
		if text := strings.Join(names, " "); !strings.Contains(text, "stint_build_info") || !strings.Contains(text, "extra") {
			t.Errorf("metrics %s", text)
		}
	}
	if !all.Unregister(extra) || all.Unregister(extra) {
		t.Error("a collector is not removed once")
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if text := w.Body.String(); !strings.Contains(text, "stint_build_info") || strings.Contains(text, "extra") || strings.Contains(text, "go_goroutines") {
		t.Errorf("the handler serves %s", text)
	}
}
