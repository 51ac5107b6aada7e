// Package wire is the format of the messages that the nodes of package gossip send each other.
//
// Every message begins with the version of the format, its kind and the number of the node that
// sent it. Numbers are uvarints. Times are relative to the sender's clock, so that no two clocks
// need to agree.
//
//	report  the number of the report, then counts: what the sender took since its last report
//	beat    the number of the last report, so that the receiver notices a lost one, and whether the
//	        sender stops
//	repair  a request for what is missing: of which nodes, after which report
//	entries a part of the answer to it: keys with their states, and the counts in them
//	query   asks what the receiver took of some keys
//	reply   the sender's counts of these keys
//
// Each kind has a version of its own. Nodes of two releases therefore understand each other in
// the kinds that did not change. Version 2 of repair and entries added times, and version 3 of
// entries the count at the end of each period, and which nodes stopped. A repair that ends with one
// more byte is of a node that can read version 3; the others get version 2.
package wire

// The kinds of messages.
const (
	KindReport = iota + 1
	KindBeat
	KindRepair
	KindEntries
	KindQuery
	KindReply
)

// format returns the version of a kind of messages.
func format(kind byte) byte {
	switch kind {
	case KindRepair:
		return 2
	case KindEntries:
		return 3
	}
	return 1
}

// WithoutPeriods is the version of entries without periods, which nodes still read.
const WithoutPeriods = 2

// KindOf returns the kind of a message by its first two bytes. It returns 0 if another release
// of this program wrote them.
func KindOf(head []byte) byte {
	if len(head) < 2 || head[1] < KindReport || head[1] > KindReply || head[0] != format(head[1]) && (head[1] != KindEntries || head[0] != WithoutPeriods) {
		return 0
	}
	return head[1]
}

// MaxPacket is the largest length of a message that is sent as one packet, and MaxBulk that of
// the others, in bytes.
const (
	MaxPacket = 1200
	MaxBulk   = 256 << 10
)
