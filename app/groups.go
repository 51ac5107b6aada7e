package app

import (
	"slices"
	"strings"
)

// A Group is settings that belong together, under a title for help.
type Group struct {
	Title    string
	Settings []Setting
}

// groups are the titles of help, each with the settings that it begins with; a word
// that ends in "-" stands for all that begin so. What no group names goes to the last.
var groups = []struct {
	title string
	words []string
}{
	{"Rules", []string{"rules", "rules-", "catalog", "catalog-", "unmatched", "records"}},
	{"Where counts are kept", []string{"store", "store-", "memory", "state", "state-", "namespace", "namespace-", "remember-refusals", "remember-refusals-for"}},
	{"How nodes agree", []string{"sync-interval", "gossip", "gossip-"}},
	{"Listeners", []string{"http", "http-", "grpc", "admin", "admin-", "resp", "resp-", "tls-", "socket-", "unix-", "max-connections", "trusted-proxies", "pprof"}},
	{"gRPC", []string{"grpc-", "rls-"}},
	{"Questions of proxies", []string{"auth-", "degraded-header", "demo"}},
	{"Metrics and log", []string{"metrics", "metrics-", "envoy-stats", "near-limit-ratio", "statsd", "statsd-", "log-"}},
	{"Start, stop and the rest", []string{"drain-"}},
}

// Groups returns the settings that help shows, in groups. They read and write c.
func (c *Config) Groups() []Group {
	all := make([]Group, len(groups))
	for i, g := range groups {
		all[i].Title = g.title
	}
	for _, s := range c.Settings() {
		if s.Hidden() {
			continue
		}
		g := &all[groupOf(s.Name)]
		g.Settings = append(g.Settings, s)
	}
	return all
}

// groupOf returns the group of a name: the first that has the name itself, else the
// first that has its beginning, else the last.
func groupOf(name string) int {
	begins := len(groups) - 1
	for i, g := range slices.Backward(groups) {
		for _, word := range g.words {
			switch {
			case word == name:
				return i
			case strings.HasSuffix(word, "-") && strings.HasPrefix(name, word):
				begins = i
			}
		}
	}
	return begins
}
