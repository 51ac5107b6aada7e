package limitjson

import (
	"context"
	"strconv"
	"time"

	"stint"
)

// LeaseStore lends units of keys to nodes.
type LeaseStore interface {
	// Lending returns what the store has lent of a take's key, as of now. epoch is the time since
	// which the store lost nothing.
	Lending(ctx context.Context, t *stint.Take, now stint.Instant) (epoch stint.Instant, lent []stint.Lent, err error)
}

// LocalLease are the units of a leased key that this process has.
type LocalLease struct {
	Node  uint64 // number of this process in the store
	Units int64  // units lent to it and not spent

	// Share is the part of the limit that this process decides alone, and ShareRemaining the units
	// of it that can be taken now. Share is nil if the limit has no shares.
	Share          *stint.Limit
	ShareRemaining int64

	// Losses are the changes of epoch of the key's server that this process noticed last, the newest last.
	Losses []LeaseLoss
}

// LeaseLoss is a change of the epoch of a server: it may have lost counts.
type LeaseLoss struct {
	// AtMS is when this process noticed it, in milliseconds of Unix time.
	AtMS int64 `json:"at_ms"`

	// UsedUp and Kept are the busy keys of leased rules on the server, of this process, by after_loss: keys
	// that count as used up since, and keys that keep what the server still has. Units are those of all
	// these keys that the process had.
	UsedUp int64 `json:"used_up"`
	Kept   int64 `json:"kept"`
	Units  int64 `json:"units"`
}

// Leases lists the nodes that have units of a key.
type Leases struct {
	// EpochMS is the time since which the store lost nothing, in milliseconds of Unix time; 0
	// if it has lent nothing of the key yet.
	EpochMS int64 `json:"epoch_ms,omitempty"`

	// Lent is the sum over Nodes: units that are unspent by the store's records. The node that
	// reported last comes last.
	Lent  int64       `json:"lent"`
	Nodes []leaseNode `json:"nodes"`

	// Here is this process and the units that it can still spend.
	Here leaseHere `json:"here"`

	// Own is the share of this process; nil if the limit has none.
	Own *leaseShare `json:"own,omitempty"`

	// Losses are those of LocalLease.
	Losses []LeaseLoss `json:"losses,omitempty"`

	// StoreError is why the store did not answer.
	StoreError string `json:"store_error,omitempty"`
}

// leaseNode is what the store lent to one process.
type leaseNode struct {
	// Node is the number of the process in hexadecimal digits; "lost" for all processes of an
	// epoch that the store lost.
	Node  string `json:"node"`
	Units int64  `json:"units"`
	AgeMS int64  `json:"age_ms"` // time since its last report
	Here  bool   `json:"here"`   // whether it is this process
}

type leaseHere struct {
	Node  string `json:"node"`
	Units int64  `json:"units"`
}

type leaseShare struct {
	Limit     int64 `json:"limit"`
	Remaining int64 `json:"remaining"`
}

// leaseTimeout is the timeout of the call to the store. Whoever inspects a key can repeat the
// request.
const leaseTimeout = time.Second

// LeasesOf lists the nodes that have units of a take's key; now is a time of the store's clock.
func LeasesOf(ctx context.Context, s LeaseStore, t *stint.Take, now stint.Instant, here LocalLease) *Leases {
	a := &Leases{Nodes: []leaseNode{}, Here: leaseHere{nodeName(here.Node), here.Units}, Losses: here.Losses}
	if here.Share != nil {
		a.Own = &leaseShare{here.Share.Capacity(), here.ShareRemaining}
	}
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	epoch, lent, err := s.Lending(ctx, t, now)
	if err != nil {
		a.StoreError = err.Error()
		return a
	}
	if epoch > 0 {
		a.EpochMS = epoch.Time().UnixMilli()
	}
	for _, l := range lent {
		a.Lent += l.Units
		a.Nodes = append(a.Nodes, leaseNode{nodeName(l.Node), l.Units, max(0, now.Sub(l.At)).Milliseconds(), l.Node == here.Node})
	}
	return a
}

// nodeName returns the number of a node in hexadecimal digits, or "lost" for 0, which represents
// all nodes of a lost epoch.
func nodeName(node uint64) string {
	if node == 0 {
		return "lost"
	}
	return strconv.FormatUint(node, 16)
}
