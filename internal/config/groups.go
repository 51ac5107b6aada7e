package config

import (
	"slices"
	"strings"
)

// Group has the names of settings that belong together, under a title for help.
type Group struct {
	Title string
	Names []string
}

// groups are the titles of help, each with its settings; a name that ends in "-" stands for all
// settings with that prefix. Settings in no group belong to the last one.
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
	{"Metrics and log", []string{"metrics", "metrics-", "envoy-stats", "near-limit-ratio", "statsd", "statsd-", "log-", "facts-off", "node", "denials", "denials-"}},
	{"Start, stop and the rest", []string{"drain-"}},
}

// Grouped returns the names in groups. Both orders are kept.
func Grouped(names []string) []Group {
	all := make([]Group, len(groups))
	for i, g := range groups {
		all[i].Title = g.title
	}
	for _, name := range names {
		g := &all[groupOf(name)]
		g.Names = append(g.Names, name)
	}
	return all
}

// groupOf returns the index of a name's group: the group with the name itself, else with its
// prefix, else the last.
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
