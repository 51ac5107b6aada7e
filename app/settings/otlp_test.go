package settings

import (
	"os"
	"path/filepath"
	"testing"

	"stint/internal/testkit"
)

// The variables of OpenTelemetry set the collector, unless flags, environment or config file do.
func TestOTELEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stint.yaml")
	testkit.Must(t, os.WriteFile(file, []byte("otlp: http://file:4318\n"), 0o600))
	const variable = "OTEL_EXPORTER_OTLP_ENDPOINT=https://collector:4317"
	for _, test := range []struct {
		name    string
		flags   []Given
		environ []string
		want    string
	}{
		{"none", nil, nil, ""},
		{"over HTTP", nil, []string{variable}, "https://collector:4317"},
		{"over gRPC", nil, []string{"OTEL_EXPORTER_OTLP_PROTOCOL=grpc", variable}, "grpcs://collector:4317"},
		{"switched off", nil, []string{variable, "OTEL_SDK_DISABLED=TRUE"}, ""},
		{"file", nil, []string{variable, "STINT_CONFIG=" + file}, "http://file:4318"},
		{"environment", nil, []string{variable, "STINT_OTLP=grpc://own:4317"}, "grpc://own:4317"},
		{"empty environment", nil, []string{variable, "STINT_OTLP="}, ""},
		{"flag", []Given{{"otlp", "http://flag:1", "--otlp"}}, []string{variable, "STINT_OTLP=grpc://own:4317"}, "http://flag:1"},
	} {
		c, err := Configure(test.flags, test.environ)
		testkit.Must(t, err)
		if c.OTLP.Endpoint != test.want {
			t.Errorf("%s: %q, want %q", test.name, c.OTLP.Endpoint, test.want)
		}
	}
	_, err := Configure(nil, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4317"})
	if want := "OTEL_EXPORTER_OTLP_ENDPOINT: not the URL of a collector"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
