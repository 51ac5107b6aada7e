package limits_test

import (
	"net/http"
	"testing"

	"stint/internal/testkit"
	"stint/internal/testkit/programs"
)

// A decision of the gateway is part of its caller's trace, which the header of the request names or
// Caddy's tracing has begun.
func TestTraces(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	for _, tracing := range []bool{false, true} {
		name := map[bool]string{false: "header", true: "tracing"}[tracing]
		t.Run(name, func(t *testing.T) {
			c := programs.StartCollector(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.HTTP) // of tracing
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
			t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
			directive := map[bool]string{false: "", true: "tracing"}[tracing]
			g := start(t, `
{
	GLOBAL
	stint {
		rules DIR/rules.yaml
		otlp `+c.HTTP+`
	}
}
http://ADDRESS {
	`+directive+`
	stint_early api
	respond ok
}
`, map[string]string{"rules.yaml": waitRules})
			if a := g.get("/", "Traceparent", "00-"+trace+"-00f067aa0ba902b7-01"); a.status != http.StatusOK {
				t.Fatal(a)
			}
			var decision, parent programs.Span
			testkit.Until(t, "the collector has the spans", func() bool {
				for _, span := range c.Spans() {
					if span.Name == "stint.decide" {
						decision = span
					} else {
						parent = span
					}
				}
				return decision.Name != "" && (!tracing || parent.Name != "")
			})
			if !tracing {
				parent.ID = "00f067aa0ba902b7"
			}
			if decision.Trace != trace || decision.Parent != parent.ID || decision.Attributes["stint.rule"] != "slow" {
				t.Errorf("%+v below %+v", decision, parent)
			}
		})
	}
}
