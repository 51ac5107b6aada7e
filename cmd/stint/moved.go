package main

import (
	"fmt"

	"stint"
	"stint/app/settings"
	"stint/internal/text"
	"stint/rule"
	"stint/rule/audit"
	"stint/store/redis/connect"
)

// moved returns how much may pass beyond limits when the servers of a store change: keys that move
// to another server start with empty counts, except in a Cluster.
func moved(table *rule.Table, store string) ([]audit.Finding, error) {
	if !settings.IsStoreURL(store) {
		return nil, nil // each process has its own counts
	}
	config := settings.Config{Store: store}
	servers, err := config.StoreServers()
	if err != nil {
		return nil, err
	}
	switch connect.FormOfURL(store) {
	case "cluster":
		return []audit.Finding{{ID: "moved-keys", Text: "a Cluster moves keys with their counts; with another number of partitions most keys lose their counts"}}, nil
	case "sentinel":
		return nil, nil // a new server takes over the data of the old one
	}
	n := len(servers)
	moves := fmt.Sprintf("adding one moves 1 of %d keys", n+1)
	if n > 1 {
		moves += fmt.Sprintf(", removing one 1 of %d keys", n)
	}
	all := []audit.Finding{{ID: "moved-keys", Text: fmt.Sprintf("%s: %s; a key that moves loses its count", text.Count(n, "server"), moves)}}
	for _, r := range table.Rules() {
		most := mostOf(r)
		if r.Plan != nil {
			for _, of := range r.Plan.Rules {
				most = max(most, mostOf(of.Rule))
			}
		}
		if most > 0 {
			all = append(all, audit.Finding{
				ID: "moved-keys", File: r.File, Line: r.Line, Rule: r.Name,
				Text: fmt.Sprintf("at most %d more pass, once, for each key that moves", most), Hint: "change the servers when there is little traffic",
			})
		}
	}
	return all, nil
}

// mostOf returns how many units a key may take again after it lost its counts.
func mostOf(r *rule.Rule) int64 {
	if r.Limit.Algorithm() == stint.Unlimited {
		return 0
	}
	if r.Elastic != nil {
		return max(r.Stored.Capacity(), r.Elastic.Cap.Capacity())
	}
	return r.Stored.Capacity()
}
