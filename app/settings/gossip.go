package settings

import (
	"fmt"
	"net"
	"time"

	"stint/internal/config"
)

// DefaultGossipAlone is the default of gossip-alone.
const DefaultGossipAlone = 5 * time.Second

// Gossip are the settings of the exchange between nodes, for limits with coordination: gossip.
type Gossip struct {
	// Addr (gossip) is the address of this node for the exchange, HOST:PORT on UDP and TCP; the
	// other nodes must reach it. Empty, the default: the node counts such limits by itself.
	Addr string

	// Join (gossip-join) are addresses HOST:PORT of other nodes. A name that stands for many, such
	// as a headless service in Kubernetes, is looked up again and again. One reachable node is
	// enough.
	Join []string

	// Alone (gossip-alone) is how long after its start a node may have found none of the nodes in
	// Join. Then it is not ready, and on_store_failure decides for rules with coordination: gossip,
	// until it finds one; 5 s by default. 0: it counts alone.
	Alone time.Duration

	// KeyFile (gossip-key-file) is a file with a key in base64 that all nodes share: it encrypts
	// the exchange, and nodes without it cannot take part. Empty, the default: everybody who
	// reaches Addr can send counts.
	KeyFile string
}

// settings returns the settings of g.
func (g *Gossip) settings() []Setting {
	return []Setting{
		{"gossip", "`ADDR` of this node for exchanging counts with other nodes; empty: off", config.Address(&g.Addr)},
		{"gossip-join", "`HOST:PORT` of other nodes, or a name for many of them; may be repeated", config.List(&g.Join, checkPeer)},
		{"gossip-alone", "`TIME` after the start without any of these nodes until this one is not ready; 0: it counts alone", config.Duration(&g.Alone)},
		{"gossip-key-file", "`FILE` with the encryption key that these nodes share", config.Path(&g.KeyFile)},
	}
}

// check returns an error about values that cannot be combined.
func (g *Gossip) check(c *Config) error {
	const hint = "give --gossip an address that the others reach, such as 10.0.0.1:7946"
	switch {
	case g.Addr == "" && len(g.Join) > 0:
		return c.Fault("gossip-join", "gossip has no address", hint)
	case g.Addr == "" && g.KeyFile != "":
		return c.Fault("gossip-key-file", "gossip has no address", hint)
	}
	return nil
}

func checkPeer(s string) error {
	if host, _, err := net.SplitHostPort(s); err != nil || host == "" || config.CheckAddress(s) != nil {
		return config.Fault(fmt.Sprintf("%q is not the address of a node", s), "write HOST:PORT, as in the other node's --gossip, or a name for many with their port")
	}
	return nil
}
