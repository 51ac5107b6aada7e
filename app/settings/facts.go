package settings

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"regexp"
	"time"

	"stint/internal/config"
	"stint/internal/text"
)

// Facts are the settings of what the service keeps about its rules and their keys.
type Facts struct {
	// Off (facts-off) keeps no facts. The default is to keep them.
	Off bool

	// Node (node) is the name of this process among others. "", the default: the name of the host and the
	// port of the admin address.
	Node string

	// Denials (denials) is the file of the log of denials, or - for standard output. "", the default: the
	// last 4096 lines are kept in memory.
	Denials string

	// DenialsEvery (denials-every) is of how many denials of a key in a minute one is logged, after the
	// first; 100 by default. 1 logs all of them.
	DenialsEvery int64

	// DenialsPerSecond (denials-per-second) is the most lines of a second; 100 by default.
	DenialsPerSecond int64

	// DenialsFor (denials-for) is how long the files are kept; 30 d by default.
	DenialsFor time.Duration

	// DenialsSize (denials-size) is the most bytes of all files; 256 MiB by default.
	DenialsSize int64
}

// defaultFacts returns the default settings.
func defaultFacts() Facts {
	return Facts{DenialsEvery: 100, DenialsPerSecond: 100, DenialsFor: 30 * 24 * time.Hour, DenialsSize: 256 << 20}
}

// leastDenials is the least size of the files: each is an eighth of it.
const leastDenials = 64 << 10

// settings returns the settings of f.
func (f *Facts) settings() []Setting {
	return []Setting{
		{"facts-off", "keep no counts, busiest keys, history and denials for the admin address", config.Flag(&f.Off)},
		{"node", "`NAME` of this process among others; by default the host and the port of admin", config.Text(&f.Node, checkNode)},
		{"denials", "`FILE` that gets a sample of denied requests as JSON lines, or - for standard output", config.Path(&f.Denials)},
		{"denials-every", "log one in so many denials of a key in a minute, after the first, a `NUMBER`", config.Number(&f.DenialsEvery, 1, 1<<30)},
		{"denials-per-second", "most lines of denials in a second, a `NUMBER`", config.Number(&f.DenialsPerSecond, 1, 1<<20)},
		{"denials-for", "`TIME` that files of denials are kept", config.Duration(&f.DenialsFor)},
		{"denials-size", "most bytes of all files of denials, a `SIZE`", config.Size(&f.DenialsSize, config.Bounds{Least: leastDenials, What: "the files of denials"})},
	}
}

// checkFacts checks the settings of facts.
func (c *Config) checkFacts() error {
	if c.Facts.DenialsFor <= 0 {
		return c.Fault("denials-for", text.FormatDuration(c.Facts.DenialsFor)+" is no time", "write a time such as 30d")
	}
	return nil
}

// NodeName returns the name of this process among others. If its port is not known yet, it is another one for
// each call.
func (c *Config) NodeName() string {
	if c.Facts.Node != "" {
		return c.Facts.Node
	}
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	address := cmp.Or(c.Admin, c.HTTP, c.GRPC)
	_, port, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return host
	case port == "0": // any free one, and several processes may have the setting
		port = rand.Text()[:8]
	}
	return host + ":" + port
}

// nodeName matches names of nodes.
var nodeName = regexp.MustCompile(`^[\w.:@/-]{1,100}$`)

func checkNode(s string) error {
	if s != "" && !nodeName.MatchString(s) {
		return config.Fault(fmt.Sprintf("%q is not a name of a node", s), "write up to 100 letters, digits and the signs . _ : @ / -")
	}
	return nil
}
