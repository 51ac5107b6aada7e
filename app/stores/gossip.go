package stores

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
func (st *Stores) openGossip() error {
	c := st.config
	o := gossip.StoreOptions{
		Base:    st.shared(),
		Options: gossip.Options{Interval: c.SyncInterval, Keys: int(c.Memory / gossipKey)},
		Around: func(asking stint.Store) stint.Store {
			return guard.New(asking, guard.Options{Timeout: c.StoreTimeout, Local: st.memory})
		},
	}
	if c.Gossip.Addr == "" {
		st.gossip = gossip.New(nil, o)
		return nil
	}
	m := members.Options{
		Addr: c.Gossip.Addr, Join: c.Gossip.Join, Label: c.Namespace, Log: st.log,
		Alone: c.Gossip.Alone, OnAlone: func(bool) { st.options.OnAlone() },
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
	st.members = members.New(m)
	o.Alone = st.members.Alone
	st.gossip = gossip.New(st.members, o)
	return nil
}

// StartGossip joins the other nodes, and waits a moment for their counts.
func (st *Stores) StartGossip(ctx context.Context) error {
	if err := st.gossip.Start(); err != nil {
		fault := st.config.Fault("gossip", "cannot listen on "+st.config.Gossip.Addr+": "+web.Cause(err).Error(), "give gossip an address of this machine and a free port")
		fault.Err = err
		return fault
	}
	if st.members == nil {
		return nil
	}
	st.log.Info("gossip: listening for other nodes", "address", st.members.Addr(), "encrypted", st.config.Gossip.KeyFile != "")
	if host, _, _ := net.SplitHostPort(st.config.Gossip.Addr); st.config.Gossip.KeyFile == "" && !web.Loopback(host) {
		st.log.Warn("gossip is not encrypted: whoever reaches its address can use up limits", "hint", "give all nodes the same --gossip-key-file")
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if !st.gossip.WaitSynced(ctx) {
		st.log.Warn("gossip: no other node has sent its counts yet; limits begin unused here")
	}
	return nil
}

// Alone reports whether this node lacks the counts of the other gossip nodes.
func (st *Stores) Alone() bool { return st.members != nil && st.members.Alone() }

// Leave ends StartGossip, for a service that cannot start.
func (st *Stores) Leave() {
	if st.members != nil {
		st.members.Close()
	}
}

// gossipStats returns the numbers of gossip for metrics.
func (st *Stores) gossipStats() telemetry.GossipStats {
	n := st.gossip.Stats()
	g := telemetry.GossipStats{
		Keys: n.Keys, Peers: n.Peers, Sent: n.Sent, SentBytes: n.Bytes, Pairs: n.Pairs, Received: n.Received, ReceivedBytes: n.ReceivedBytes,
		Repairs: n.Repairs, Damaged: n.Damaged, Foreign: n.Foreign, Evicted: n.Evicted, Asked: n.Asked,
	}
	if st.members != nil {
		g.Refused, g.Alone = st.members.Refused(), st.members.Alone()
	}
	return g
}

// warnOfGossip logs that rules need gossip while it is off.
func (st *Stores) warnOfGossip(table *rule.Table) {
	if st.config.Gossip.Addr != "" {
		return
	}
	for _, r := range table.All() {
		if r.Mode() == rule.Gossip {
			st.log.Warn("a rule has coordination: gossip, but --gossip is not set: this node counts alone", "rule", r.Name, "hint", "give --gossip an address and --gossip-join the others")
			return
		}
	}
}
