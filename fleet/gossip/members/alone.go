package members

import (
	"net"
	"time"
)

// Alone reports whether this node has found no other one since Open, although Options.Join names
// some, and Options.Alone is over. It then lacks the counts of the others. Once it has found one it
// is never alone again, even if all others stop: it knows their counts.
func (m *Members) Alone() bool { return m.alone.Load() }

// watchAlone reports and logs that this node has found no other one for some time. Run calls it
// after each attempt to join.
func (m *Members) watchAlone(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.peers) > 0 {
		m.parted, m.logged = now, false
		return
	}
	const hint = "check --gossip-join, and that UDP and TCP reach the --gossip address of the others; this node keeps trying"
	lacks := !m.met && m.expects
	switch since := now.Sub(m.parted); {
	case m.alone.Load():
		m.setAloneLocked(lacks)
	case m.o.Alone > 0 && !m.judged && since >= m.o.Alone:
		m.judged = true
		if lacks {
			m.logged = true
			m.setAloneLocked(true)
			m.o.Log.Warn("gossip: found no other node; this node is not ready, and on_store_failure decides for its gossip rules", "join", m.o.Join, "hint", hint)
		}
	case !m.logged && len(m.o.Join) > 0 && since >= aloneWarning:
		m.logged = true
		m.o.Log.Warn("gossip: found no other node; this node counts alone", "join", m.o.Join, "hint", hint)
	}
}

// setAloneLocked stores whether the node is alone, and calls OnAlone if that has changed.
func (m *Members) setAloneLocked(alone bool) {
	if m.alone.Swap(alone) != alone && m.o.OnAlone != nil {
		m.o.OnAlone(alone)
	}
}

// isOwn reports whether an address is this node's: its port at an address of this machine.
func (m *Members) isOwn(address string) bool {
	host, port, err := net.SplitHostPort(address)
	_, ownPort, errOwn := net.SplitHostPort(m.Addr())
	ip := net.ParseIP(host)
	switch {
	case address == m.Addr():
		return true
	case err != nil || errOwn != nil || port != ownPort || ip == nil:
		return false
	case ip.IsUnspecified():
		return true
	}
	if bound, _, _ := net.SplitHostPort(m.o.Addr); bound != "" && !net.ParseIP(bound).IsUnspecified() {
		return false // it listens at one address only
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, one := range all {
		if n, ok := one.(*net.IPNet); ok && n.IP.Equal(ip) {
			return true
		}
	}
	return false
}
