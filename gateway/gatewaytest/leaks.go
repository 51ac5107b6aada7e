package gatewaytest

import "go.uber.org/goleak"

// Leaks are the options of goleak in tests that run Caddy. They ignore goroutines of Caddy and its
// libraries that outlive a configuration.
func Leaks() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/DeRuina/timberjack.(*Logger).millRun"),    // of a log file; no end
		goleak.IgnoreAnyFunction("github.com/caddyserver/certmagic.keepLockfileFresh"), // ends within 5 s
	}
}
