// Package look says who holds what of a key that is lent, in the words of the admin API.
package look

import (
	"context"
	"strconv"
	"time"

	"stint"
)

// Store is what knows what was lent of a key.
type Store interface {
	// Lending returns what is lent of a take's key at a time, and in which epoch it was lent.
	Lending(ctx context.Context, t *stint.Take, now stint.Instant) (epoch stint.Instant, lent []stint.Lent, err error)
}

// Here is what this process has of a key.
type Here struct {
	Node  uint64 // the number by which the store knows it
	Units int64  // that are lent to it and unspent

	// Own is what it has for itself of a limit that is divided, and Left how much of that
	// can be taken now. Nil: the limit is not divided.
	Own  *stint.Limit
	Left int64
}

// Holders says who holds what of a key.
type Holders struct {
	// EpochMS is since when the store forgot nothing, in milliseconds of Unix time; 0 where
	// nothing of the key was lent yet.
	EpochMS int64 `json:"epoch_ms,omitempty"`

	// Lent is the sum of Nodes: what the store believes to be unspent. Nodes are those that
	// hold it, the one that it heard of last at the end.
	Lent  int64  `json:"lent"`
	Nodes []Node `json:"nodes"`

	// Here is what this process can still spend of what it was lent.
	Here HereAnswer `json:"here"`

	// Own is what this process has for itself; nil where the limit is not divided.
	Own *Own `json:"own,omitempty"`

	// StoreError is why the store could not be asked.
	StoreError string `json:"store_error,omitempty"`
}

// Node is what one process was lent, as the store knows it.
type Node struct {
	// Node is its number in hexadecimal digits; "lost" for those of an epoch that the store
	// forgot.
	Node  string `json:"node"`
	Units int64  `json:"units"`
	AgeMS int64  `json:"age_ms"` // since it told of them
	Here  bool   `json:"here"`
}

// HereAnswer is this process.
type HereAnswer struct {
	Node  string `json:"node"`
	Units int64  `json:"units"`
}

// Own is a part of a limit.
type Own struct {
	Limit     int64 `json:"limit"`
	Remaining int64 `json:"remaining"`
}

// timeout is how long the store may take: who looks can look again.
const timeout = time.Second

// At says who holds what of a take's key at a time, by the store's clock.
func At(ctx context.Context, s Store, t *stint.Take, now stint.Instant, here Here) *Holders {
	h := &Holders{Nodes: []Node{}, Here: HereAnswer{name(here.Node), here.Units}}
	if here.Own != nil {
		h.Own = &Own{here.Own.Capacity(), here.Left}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	epoch, lent, err := s.Lending(ctx, t, now)
	if err != nil {
		h.StoreError = err.Error()
		return h
	}
	if epoch > 0 {
		h.EpochMS = epoch.Time().UnixMilli()
	}
	for _, o := range lent {
		h.Lent += o.Units
		h.Nodes = append(h.Nodes, Node{name(o.Node), o.Units, max(0, now.Sub(o.At)).Milliseconds(), o.Node == here.Node})
	}
	return h
}

// name writes the number of a node; 0 is that of all whom a lost epoch lent something.
func name(node uint64) string {
	if node == 0 {
		return "lost"
	}
	return strconv.FormatUint(node, 16)
}
