package facts

import (
	"context"
	"time"
)

// By is the count by which keys are sorted.
type By string

// The counts by which keys are sorted.
const (
	ByDenied  By = "denied"
	ByAllowed By = "allowed"
	ByOver    By = "over"
)

// The lengths of the pieces of a History.
const (
	Minute     = time.Minute
	TenMinutes = 10 * time.Minute
)

// Exchange carries the summaries of nodes, which are bytes to it. It is safe for concurrent use.
type Exchange interface {
	// Publish makes data known as the summary of a node for the time keep.
	Publish(ctx context.Context, node string, data []byte, keep time.Duration) error

	// Read returns the summaries of all nodes by their names.
	Read(ctx context.Context) (map[string][]byte, error)
}

// Of is whose facts are asked for. Domain may be empty where only one domain has a rule of that
// name. An empty Rule means all rules together.
type Of struct{ Domain, Rule string }

// Reader is what reads facts: the API, the page, advice.
type Reader interface {
	// Summary returns what all nodes know. Nodes whose summary could not be read are missing.
	Summary(ctx context.Context) Summary

	// Top returns the n busiest keys of a rule on all nodes, sorted by a count. The rule may be empty: then
	// the keys of all rules are sorted together.
	Top(ctx context.Context, of Of, by By, n int) []Key

	// Find returns what is known of a key with this ID, in all rules. Keys that are not among the
	// busiest are not known.
	Find(ctx context.Context, id string) []Key

	// History returns the history of a rule on this node; step is Minute or TenMinutes.
	History(of Of, step time.Duration) History

	// Denials returns the newest n lines of the log of denials of this node that match, newest first. A
	// nil match matches all.
	Denials(n int, match func(*Denial) bool) []Denial
}
