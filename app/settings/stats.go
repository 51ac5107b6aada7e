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

// Stats are the settings of statistics besides those of the admin address.
type Stats struct {
	// Metrics (metrics) is an address for the metrics alone, without a token. Empty, the default:
	// not opened; the admin address has them too.
	Metrics string

	// MetricsPath (metrics-path) is the path of the metrics there; /metrics by default.
	MetricsPath string

	// Envoy (envoy-stats) also counts under the names of envoyproxy/ratelimit, and adds these
	// counters to the metrics; off by default. It costs a few atomic additions for each decision.
	Envoy bool

	// NearLimitRatio (near-limit-ratio) is the part of a limit above which the statistics of
	// envoyproxy/ratelimit count requests as near the limit; 0.8 by default.
	NearLimitRatio float64

	// StatsD (statsd) is the address to which the statistics of envoyproxy/ratelimit are sent:
	// udp://HOST:PORT, tcp://HOST:PORT, or dogstatsd://HOST:PORT for UDP with tags in DogStatsD's
	// form. Empty, the default: none.
	StatsD string

	// StatsDInterval (statsd-interval) is the time between two sendings; 10 s by default.
	StatsDInterval time.Duration

	// StatsDTags (statsd-tags) are tags, NAME:VALUE, on everything that is sent. None by default.
	StatsDTags []string
}

// metricsPath is the default path of metrics on every listener.
const metricsPath = "/metrics"

// defaultStats returns the default settings.
func defaultStats() Stats {
	return Stats{MetricsPath: metricsPath, NearLimitRatio: 0.8, StatsDInterval: 10 * time.Second}
}

// settings returns the settings of s.
func (s *Stats) settings() []Setting {
	return []Setting{
		{"metrics", "`ADDR` for metrics alone, without a token; empty: not opened", config.Address(&s.Metrics)},
		{"metrics-path", "`PATH` of the metrics there", config.Text(&s.MetricsPath, checkPath)},
		{"envoy-stats", "count under the names of envoyproxy/ratelimit too", config.Flag(&s.Envoy)},
		{"near-limit-ratio", "`PART` of a limit above which envoy-stats counts requests as near the limit", config.Fraction(&s.NearLimitRatio)},
		{"statsd", "`URL` to send these statistics to: udp://, tcp:// or dogstatsd://HOST:PORT", config.Text(&s.StatsD, checkStatsD)},
		{"statsd-interval", "`TIME` between two sendings", config.Duration(&s.StatsDInterval)},
		{"statsd-tags", "`NAME:VALUE` on everything that is sent; may be repeated", config.List(&s.StatsDTags, checkTag)},
	}
}

// check returns an error about values that cannot be combined.
func (s *Stats) check(c *Config) error {
	if s.StatsDInterval == 0 {
		return c.Fault("statsd-interval", "must be more than 0", "write a time such as 10s")
	}
	return nil
}

func checkPath(s string) error {
	if !strings.HasPrefix(s, "/") || strings.ContainsAny(s, "?#{} ") {
		return config.Fault(fmt.Sprintf("%q is not a path", s), "write one such as /metrics")
	}
	return nil
}

func checkStatsD(s string) error {
	if s == "" {
		return nil
	}
	const hint = "write udp://HOST:PORT, tcp://HOST:PORT or dogstatsd://HOST:PORT, or leave it empty"
	u, err := url.Parse(s)
	if err != nil || !slices.Contains(telemetry.StatsDSchemes, u.Scheme) || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" {
		return config.Fault(fmt.Sprintf("%q is not a StatsD address", s), hint)
	}
	if err := config.CheckAddress(u.Host); err != nil {
		return config.Fault(err.Error(), hint)
	}
	return nil
}

func checkTag(s string) error {
	if name, value, found := strings.Cut(s, ":"); !found || name == "" || value == "" || strings.ContainsAny(s, "|\n# ") {
		return config.Fault(fmt.Sprintf("%q is not a tag", s), "write NAME:VALUE, such as cluster:a")
	}
	return nil
}
