package main

import (
	"errors"
	"fmt"
	"io"

	"stint"
	"stint/rule"
	"stint/store/redis"
)

// printMoved prints what a change of the servers of a store may let pass beyond limits:
// keys that move to another server begin anew there.
func printMoved(out io.Writer, table *rule.Table, store string) error {
	servers, err := redis.Servers(store)
	if problem, ok := errors.AsType[*redis.ConfigError](err); ok {
		return &usageError{"--store: " + problem.Problem, problem.Hint}
	}
	if err != nil {
		return err
	}
	n := len(servers)
	moves := fmt.Sprintf("one more moves a key in %d", n+1)
	if n > 1 {
		moves += fmt.Sprintf(", one less a key in %d", n)
	}
	fmt.Fprintf(out, "%s: %s; a key that moves begins anew, and its old count is lost\n", count(n, "server"), moves)
	for _, r := range table.Rules() {
		if most := mostOf(r); most > 0 {
			fmt.Fprintf(out, "%s: %s: at most %d pass beyond the limit for each key that moves, once\n", placeOf(r.File, r.Line), r.Name, most)
		}
	}
	return nil
}

// mostOf returns the most that a key of a rule which begins anew has again.
func mostOf(r *rule.Rule) int64 {
	if r.Limit.Algorithm() == stint.Unlimited {
		return 0
	}
	if r.Elastic != nil {
		return max(r.Stored.Most(), r.Elastic.Cap.Most())
	}
	return r.Stored.Most()
}
