package settings

import (
	"fmt"
	"net"

	"stint/internal/config"
)

// Gossip are the settings of how nodes tell each other what they took, for limits that say
// coordination: gossip.
type Gossip struct {
	// Addr (gossip) is where this node tells and hears, HOST:PORT on UDP and TCP; the others
	// must reach it there. Empty, the default: it counts such limits by itself.
	Addr string

	// Join (gossip-join) are addresses HOST:PORT of others. A name that stands for many, as
	// of a headless service in Kubernetes, is looked up again and again. One node that is
	// there is enough.
	Join []string

	// KeyFile (gossip-key-file) is a file with a key in base64 that all nodes share: it
	// encrypts what they tell, and keeps out whoever does not have it. Empty, the default:
	// whoever reaches Addr can say what he likes.
	KeyFile string
}

// settings are those of g.
func (g *Gossip) settings() []Setting {
	return []Setting{
		{"gossip", "`ADDR` at which nodes tell each other what they took; empty: they do not", config.Address(&g.Addr)},
		{"gossip-join", "`HOST:PORT` of others, or of a name that stands for them; may be repeated", config.List(&g.Join, checkPeer)},
		{"gossip-key-file", "`FILE` with the key that these nodes share", config.Path(&g.KeyFile)},
	}
}

// check returns the faults of values that do not go together.
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
		return config.Fault(fmt.Sprintf("%q is no address of a node", s), "write HOST:PORT, as the other node's --gossip says, or a name for many with their port")
	}
	return nil
}
