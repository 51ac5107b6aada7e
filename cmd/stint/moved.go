package main

import (
	"fmt"

	"stint"
	"stint/internal/text"
	"stint/rule"
	"stint/rule/audit"
	"stint/store/redis/connect"
)

// moved returns what may pass beyond limits when the servers of a store change: keys that move to
// another server begin anew there, except in a Cluster.
func moved(table *rule.Table, store string) ([]audit.Finding, error) {
	if !connect.IsURL(store) {
		return nil, nil // each process keeps what it counts
	}
	servers, err := connect.Servers(store)
	if err != nil {
		return nil, err
	}
	switch connect.FormOfURL(store) {
	case "cluster":
		return []audit.Finding{{ID: "moved-keys", Text: "a Cluster moves keys with their counts; with another number of partitions most keys begin anew"}}, nil
	case "sentinel":
		return nil, nil // another server takes over what the one has
	}
	n := len(servers)
	moves := fmt.Sprintf("one more moves a key in %d", n+1)
	if n > 1 {
		moves += fmt.Sprintf(", one less a key in %d", n)
	}
	all := []audit.Finding{{ID: "moved-keys", Text: fmt.Sprintf("%s: %s; a key that moves begins anew, and its old count is lost", text.Count(n, "server"), moves)}}
	for _, r := range table.Rules() {
		if most := mostOf(r); most > 0 {
			all = append(all, audit.Finding{
				ID: "moved-keys", File: r.File, Line: r.Line, Rule: r.Name,
				Text: fmt.Sprintf("at most %d pass beyond the limit for each key that moves, once", most), Hint: "change the servers when it is quiet",
			})
		}
	}
	return all, nil
}

// mostOf returns how much a key that begins anew may take again.
func mostOf(r *rule.Rule) int64 {
	if r.Limit.Algorithm() == stint.Unlimited {
		return 0
	}
	if r.Elastic != nil {
		return max(r.Stored.Capacity(), r.Elastic.Cap.Capacity())
	}
	return r.Stored.Capacity()
}
