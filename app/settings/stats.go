package settings

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"stint/internal/config"
	"stint/telemetry"
)

// Stats are the settings of statistics beside those of the admin address.
type Stats struct {
	// Metrics (metrics) is an address for the metrics alone, which asks for no token.
	// Empty, the default: not opened; the admin address has them too.
	Metrics string

	// MetricsPath (metrics-path) is their path there; /metrics by default.
	MetricsPath string

	// Envoy (envoy-stats) counts under the names of envoyproxy/ratelimit too, and adds
	// them to the metrics; off by default. It costs a few atomic additions a decision.
	Envoy bool

	// NearLimitRatio (near-limit-ratio) is the part of a limit above which the statistics
	// of envoyproxy/ratelimit count requests as near it; 0.8 by default.
	NearLimitRatio float64

	// StatsD (statsd) is where the statistics of envoyproxy/ratelimit are sent to:
	// udp://HOST:PORT, tcp://HOST:PORT, or dogstatsd://HOST:PORT for UDP with tags as
	// DogStatsD writes them. Empty, the default: nowhere.
	StatsD string

	// StatsDInterval (statsd-interval) is the time between two sendings; 10 s by default.
	StatsDInterval time.Duration

	// StatsDTags (statsd-tags) are tags, NAME:VALUE, on everything that is sent. None by
	// default.
	StatsDTags []string
}

// metricsPath is where metrics are on every listener that has them.
const metricsPath = "/metrics"

// defaultStats returns the settings where nobody configured them.
func defaultStats() Stats {
	return Stats{MetricsPath: metricsPath, NearLimitRatio: 0.8, StatsDInterval: 10 * time.Second}
}

// settings are those of s.
func (s *Stats) settings() []Setting {
	return []Setting{
		{"metrics", "`ADDR` for metrics alone, without a token; empty: not opened", config.Address(&s.Metrics)},
		{"metrics-path", "`PATH` of the metrics there", config.Text(&s.MetricsPath, checkPath)},
		{"envoy-stats", "count under the names of envoyproxy/ratelimit too", config.Flag(&s.Envoy)},
		{"near-limit-ratio", "`PART` of a limit above which those count requests as near it", config.Fraction(&s.NearLimitRatio)},
		{"statsd", "`URL` to send those to: udp://, tcp:// or dogstatsd://HOST:PORT", config.Text(&s.StatsD, checkStatsD)},
		{"statsd-interval", "`TIME` between two sendings", config.Duration(&s.StatsDInterval)},
		{"statsd-tags", "`NAME:VALUE` on everything that is sent; may be repeated", config.List(&s.StatsDTags, checkTag)},
	}
}

// check returns the faults of values that do not go together.
func (s *Stats) check(c *Config) error {
	if s.StatsDInterval == 0 {
		return c.Fault("statsd-interval", "nothing can be sent all the time", "write a time such as 10s")
	}
	return nil
}

func checkPath(s string) error {
	if !strings.HasPrefix(s, "/") || strings.ContainsAny(s, "?#{} ") {
		return config.Fault(fmt.Sprintf("%q is no path", s), "write one such as /metrics")
	}
	return nil
}

func checkStatsD(s string) error {
	if s == "" {
		return nil
	}
	const hint = "write udp://HOST:PORT, tcp://HOST:PORT or dogstatsd://HOST:PORT, or nothing to send nothing"
	u, err := url.Parse(s)
	if err != nil || !slices.Contains(telemetry.StatsDSchemes, u.Scheme) || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" {
		return config.Fault(fmt.Sprintf("%q is no address of StatsD", s), hint)
	}
	if err := config.CheckAddress(u.Host); err != nil {
		return config.Fault(err.Error(), hint)
	}
	return nil
}

func checkTag(s string) error {
	if name, value, found := strings.Cut(s, ":"); !found || name == "" || value == "" || strings.ContainsAny(s, "|\n# ") {
		return config.Fault(fmt.Sprintf("%q is no tag", s), "write NAME:VALUE, such as cluster:a")
	}
	return nil
}
