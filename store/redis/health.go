package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Warning is something about a server that will go wrong one day.
type Warning struct {
	Problem string
	Hint    string
}

// Warnings looks at all servers for settings that limits do not go well with: a policy
// by which a server that is full forgets keys, and with them what was used.
func (s *Store) Warnings(ctx context.Context) ([]Warning, error) {
	client, err := s.side.client(ctx)
	if err != nil {
		return nil, explain("connect", err)
	}
	var all []Warning
	for address, node := range client.Nodes() {
		text, err := node.Do(ctx, node.B().Info().Section("memory").Build()).ToString()
		if err != nil {
			return all, explain("look at "+address, err)
		}
		all = append(all, judge(address, fieldsOf(text))...)
	}
	return all, nil
}

// judge returns what is wrong with the memory settings of a server.
func judge(address string, info map[string]string) []Warning {
	most, err := strconv.ParseInt(info["maxmemory"], 10, 64)
	if policy := info["maxmemory_policy"]; err == nil && most > 0 && policy != "noeviction" {
		return []Warning{{
			Problem: fmt.Sprintf("%s forgets keys when its %d bytes are full (maxmemory-policy %s), and who was over a limit starts anew", address, most, policy),
			Hint:    "set maxmemory-policy noeviction, give limits a server of their own, and watch used_memory",
		}}
	}
	return nil
}

// fieldsOf reads what INFO says.
func fieldsOf(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}
