package accesslog

// Format is the form in which a line was written.
type Format uint8

// The formats that a parser knows.
const (
	Common     Format = iota // common or combined format of Apache and nginx, also with the virtual host in front
	JSON                     // an object with the usual field names
	Cloudflare               // an object with the field names of Cloudflare's Logpush
	Envoy                    // Envoy's default format, and Istio's
	HAProxy                  // HAProxy's HTTP log, behind whatever syslog wrote
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

// ID returns the name of the format for programs, such as "haproxy".
func (f Format) ID() string { return formatNames[f].id }

// String returns the name of the format for people.
func (f Format) String() string { return formatNames[f].name }
