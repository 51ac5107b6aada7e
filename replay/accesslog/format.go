package accesslog

// Format is the format of a line.
type Format uint8

// The formats that a Parser supports.
const (
	Common     Format = iota // common or combined format of Apache and nginx, optionally with a virtual host first
	JSON                     // JSON object with the usual field names
	Cloudflare               // JSON object with the field names of Cloudflare's Logpush
	Envoy                    // Envoy's default format, and Istio's
	HAProxy                  // HAProxy's HTTP log, optionally with a syslog header
	ALB                      // AWS Application Load Balancer
)

// Formats are all formats.
var Formats = []Format{Common, JSON, Cloudflare, Envoy, HAProxy, ALB}

var formatNames = [...]struct{ id, name string }{
	Common:     {"common", "common or combined (Apache, nginx)"},
	JSON:       {"json", "JSON"},
	Cloudflare: {"cloudflare", "Cloudflare Logpush"},
	Envoy:      {"envoy", "Envoy"},
	HAProxy:    {"haproxy", "HAProxy HTTP"},
	ALB:        {"alb", "AWS ALB"},
}

// ID returns the identifier of the format, such as "haproxy".
func (f Format) ID() string { return formatNames[f].id }

// String returns the name of the format for output.
func (f Format) String() string { return formatNames[f].name }
