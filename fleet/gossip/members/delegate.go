package members

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/hashicorp/memberlist"
)

// delegate receives the events of memberlist.
type delegate struct{ *Members }

// NotifyJoin adds a node. A node that had the same address before is dead, even if memberlist has
// not noticed yet.
func (d delegate) NotifyJoin(n *memberlist.Node) {
	id, ok := d.other(n)
	if !ok {
		return
	}
	node := *n
	var dead []uint64
	d.mu.Lock()
	for other, p := range d.peers {
		if other != id && p.node.Address() == node.Address() {
			dead = append(dead, other)
			delete(d.peers, other)
		}
	}
	d.peers[id] = &peer{node: &node}
	d.met = true
	d.setAloneLocked(false)
	d.mu.Unlock()
	d.o.Log.Info("gossip: a node joined", "node", n.Address())
	for _, other := range dead {
		d.to.RemovePeer(other)
	}
	d.to.AddPeer(id)
}

// NotifyLeave removes a node that left or cannot be reached any more.
func (d delegate) NotifyLeave(n *memberlist.Node) {
	id, ok := d.other(n)
	if !ok {
		return
	}
	d.mu.Lock()
	delete(d.peers, id)
	d.mu.Unlock()
	d.o.Log.Info("gossip: a node left", "node", n.Address())
	d.to.RemovePeer(id)
}

// NotifyUpdate is called when a node changes its meta data. None has any.
func (d delegate) NotifyUpdate(*memberlist.Node) {}

// other returns the number of a node, and whether it is another node than this one.
func (d delegate) other(n *memberlist.Node) (uint64, bool) {
	id, err := strconv.ParseUint(n.Name, 16, 64)
	return id, err == nil && id != d.to.ID()
}

// NotifyMsg passes a message on.
func (d delegate) NotifyMsg(message []byte) { d.to.Receive(message) }

// NodeMeta returns no meta data.
func (d delegate) NodeMeta(int) []byte { return nil }

// GetBroadcasts adds nothing to memberlist's own messages.
func (d delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState adds nothing when two nodes compare their members.
func (d delegate) LocalState(bool) []byte { return nil }

// MergeRemoteState ignores what another node added.
func (d delegate) MergeRemoteState([]byte, bool) {}

// logs receives the log lines of memberlist. It logs refusals as warnings and all else at debug
// level.
type logs struct{ *Members }

// weHaveNone is the text of memberlist when other nodes have a key and this one has none.
const weHaveNone = "remote state is encrypted and encryption is not configured"

// refusals are texts, in small letters, of memberlist when a node has another key, or none.
var refusals = [][]byte{
	[]byte("decrypt packet failed"), []byte("encryption is configured but remote state is not encrypted"),
	[]byte("no installed keys could decrypt the message"), []byte(weHaveNone),
	[]byte("unacceptable label"),
}

// Write logs one line.
func (l *logs) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	if _, rest, ok := strings.Cut(text, "memberlist: "); ok {
		text = rest
	}
	for _, part := range refusals {
		if bytes.Contains(bytes.ToLower(line), part) {
			l.refuse(text)
			return len(line), nil
		}
	}
	l.o.Log.Debug("gossip: " + text)
	return len(line), nil
}

// refuse counts a refusal, and logs the first of each host.
func (l *logs) refuse(text string) {
	l.refused.Add(1)
	_, from, _ := strings.Cut(text, "from=")
	host := from
	if at := strings.LastIndexByte(from, ':'); at >= 0 {
		host = from[:at]
	}
	l.logging.Lock()
	known := l.hosts[host]
	if len(l.hosts) < 1000 {
		l.hosts[host] = true
	}
	l.logging.Unlock()
	switch {
	case known:
	case strings.Contains(text, weHaveNone):
		l.o.Log.Warn("gossip: other nodes refuse this one: they have a key and this one has none", "error", text,
			"hint", "give all nodes the same --gossip-key-file")
	default:
		l.o.Log.Warn("gossip: refused a node without our key", "peer", from, "error", text,
			"hint", "give all nodes the same --gossip-key-file")
	}
}
