package members

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/hashicorp/memberlist"
)

// delegate is what memberlist tells.
type delegate struct{ *Members }

// NotifyJoin says that a node can be reached. If another one was at its address that one is
// dead, which memberlist is yet to find out.
func (d delegate) NotifyJoin(n *memberlist.Node) {
	id, ok := d.other(n)
	if !ok {
		return
	}
	node := *n
	var dead []uint64
	d.mu.Lock()
	for other, p := range d.here {
		if other != id && p.node.Address() == node.Address() {
			dead = append(dead, other)
			delete(d.here, other)
		}
	}
	d.here[id] = &peer{node: &node}
	d.mu.Unlock()
	d.o.Log.Info("gossip: a node joined", "node", n.Address())
	for _, other := range dead {
		d.to.RemovePeer(other)
	}
	d.to.AddPeer(id)
}

// NotifyLeave says that a node cannot be reached any more, or left.
func (d delegate) NotifyLeave(n *memberlist.Node) {
	id, ok := d.other(n)
	if !ok {
		return
	}
	d.mu.Lock()
	delete(d.here, id)
	d.mu.Unlock()
	d.o.Log.Info("gossip: a node is gone", "node", n.Address())
	d.to.RemovePeer(id)
}

// NotifyUpdate says that a node told something new of itself, which none does.
func (d delegate) NotifyUpdate(*memberlist.Node) {}

// other returns the number of another node.
func (d delegate) other(n *memberlist.Node) (uint64, bool) {
	id, err := strconv.ParseUint(n.Name, 16, 64)
	return id, err == nil && id != d.to.ID()
}

// NotifyMsg takes a message.
func (d delegate) NotifyMsg(message []byte) { d.to.Receive(message) }

// NodeMeta returns what a node tells of itself beside its name: nothing.
func (d delegate) NodeMeta(int) []byte { return nil }

// GetBroadcasts returns what to add to memberlist's own messages: nothing.
func (d delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState returns what to tell when two nodes compare members: nothing.
func (d delegate) LocalState(bool) []byte { return nil }

// MergeRemoteState takes what the other one told then.
func (d delegate) MergeRemoteState([]byte, bool) {}

// logs passes on what memberlist logs: quietly, but for who was refused.
type logs struct{ *Members }

// weHaveNone is part of the line that says that the others have a key.
const weHaveNone = "remote state is encrypted and encryption is not configured"

// refusals are the parts, in small letters, of lines that say that somebody has another key, or none.
var refusals = [][]byte{
	[]byte("decrypt packet failed"), []byte("encryption is configured but remote state is not encrypted"),
	[]byte("no installed keys could decrypt the message"), []byte(weHaveNone),
	[]byte("unacceptable label"),
}

// Write takes a line.
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

// refuse counts who has not the key, and logs it once for each host.
func (l *logs) refuse(text string) {
	l.refused.Add(1)
	_, from, _ := strings.Cut(text, "from=")
	host := from
	if at := strings.LastIndexByte(from, ':'); at >= 0 {
		host = from[:at]
	}
	l.logging.Lock()
	known := l.told[host]
	if len(l.told) < 1000 {
		l.told[host] = true
	}
	l.logging.Unlock()
	switch {
	case known:
	case strings.Contains(text, weHaveNone):
		l.o.Log.Warn("gossip: other nodes refuse this one, because they have a key and it has none", "error", text,
			"hint", "give all nodes the same --gossip-key-file")
	default:
		l.o.Log.Warn("gossip: a node without our key was refused", "peer", from, "error", text,
			"hint", "give all nodes the same --gossip-key-file")
	}
}
