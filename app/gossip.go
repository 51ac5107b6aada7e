package app

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"time"

	"stint"
	"stint/chain/guard"
	"stint/fleet/gossip"
	"stint/fleet/gossip/members"
	"stint/internal/text"
	"stint/internal/web"
	"stint/rule"
	"stint/telemetry"
)

// gossipKey is the approximate memory in bytes of a key with the counts of a few other nodes.
const gossipKey = 512

// syncTimeout bounds how long a new node waits for the counts of the others before it accepts
// traffic.
const syncTimeout = 3 * time.Second / 2

// openGossip makes the store of limits with coordination: gossip.
func (a *App) openGossip() error {
	c := &a.config
	o := gossip.StoreOptions{
		Base:    a.stores.shared(),
		Options: gossip.Options{Interval: c.SyncInterval, Keys: int(c.Memory / gossipKey)},
		Around: func(asking stint.Store) stint.Store {
			return guard.New(asking, guard.Options{Timeout: c.StoreTimeout, Local: a.stores.memory})
		},
	}
	if c.Gossip.Addr == "" {
		a.stores.gossip = gossip.New(nil, o)
		return nil
	}
	m := members.Options{
		Addr: c.Gossip.Addr, Join: c.Gossip.Join, Label: c.Namespace, Log: a.log,
		Alone: c.Gossip.Alone, OnAlone: func(bool) { a.readyChanged() },
	}
	if c.Gossip.KeyFile != "" {
		key, err := members.ReadKey(c.Gossip.KeyFile)
		if cause, ok := errors.AsType[*fs.PathError](err); ok {
			return c.Fault("gossip-key-file", "cannot read the key: "+text.Cause(cause), "check the path and its permissions")
		} else if err != nil {
			return c.Fault("gossip-key-file", err.Error(), "make one with: openssl rand -base64 32")
		}
		m.Key = key
	}
	a.stores.members = members.New(m)
	o.Alone = a.stores.members.Alone
	a.stores.gossip = gossip.New(a.stores.members, o)
	return nil
}

// startGossip joins the other nodes, and waits a moment for their counts.
func (a *App) startGossip(ctx context.Context) error {
	if err := a.stores.gossip.Start(); err != nil {
		fault := a.config.Fault("gossip", "cannot listen on "+a.config.Gossip.Addr+": "+web.Cause(err).Error(), "give gossip an address of this machine and a free port")
		fault.Err = err
		return fault
	}
	if a.stores.members == nil {
		return nil
	}
	a.log.Info("gossip: listening for other nodes", "address", a.stores.members.Addr(), "encrypted", a.config.Gossip.KeyFile != "")
	if host, _, _ := net.SplitHostPort(a.config.Gossip.Addr); a.config.Gossip.KeyFile == "" && !web.Loopback(host) {
		a.log.Warn("gossip is not encrypted: whoever reaches its address can use up limits", "hint", "give all nodes the same --gossip-key-file")
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if !a.stores.gossip.WaitSynced(ctx) {
		a.log.Warn("gossip: no other node has sent its counts yet; limits begin unused here")
	}
	return nil
}

// alone reports whether this node lacks the counts of the other gossip nodes.
func (s *stores) alone() bool { return s.members != nil && s.members.Alone() }

// gossipStats returns the numbers of gossip for metrics.
func (s *stores) gossipStats() telemetry.GossipStats {
	n := s.gossip.Stats()
	g := telemetry.GossipStats{
		Keys: n.Keys, Peers: n.Peers, Sent: n.Sent, SentBytes: n.Bytes, Pairs: n.Pairs, Received: n.Received, ReceivedBytes: n.ReceivedBytes,
		Repairs: n.Repairs, Damaged: n.Damaged, Foreign: n.Foreign, Evicted: n.Evicted, Asked: n.Asked,
	}
	if s.members != nil {
		g.Refused, g.Alone = s.members.Refused(), s.members.Alone()
	}
	return g
}

// warnOfGossip logs that rules need gossip while it is off.
func (a *App) warnOfGossip(table *rule.Table) {
	if a.config.Gossip.Addr != "" {
		return
	}
	for _, r := range table.Rules() {
		if r.Mode() == rule.Gossip {
			a.log.Warn("a rule has coordination: gossip, but --gossip is not set: this node counts alone", "rule", r.Name, "hint", "give --gossip an address and --gossip-join the others")
			return
		}
	}
}
