// Package zones loads time zones whose names come from the network.
package zones

import (
	"strings"
	"sync"
	"time"
)

// maxName is the most bytes of a name. The longest of the IANA database has 32.
const maxName = 100

// maxUnknown is how many names are kept that no zone has.
const maxUnknown = 100

var (
	mu      sync.Mutex // guards what follows
	loaded  = map[string]*time.Location{}
	unknown = map[string]bool{}
)

// Load returns the zone of a name of the IANA database. It reads each zone once and keeps
// it, because a zone is some kilobytes and a name is a few bytes; there are some hundred
// zones. Of names that no zone has it keeps a few: where Go is installed, its own file of
// zones is looked through for each, which takes 40 KiB.
func Load(name string) (*time.Location, bool) {
	if len(name) > maxName || name == "" || name == "Local" {
		return nil, false
	}
	mu.Lock()
	defer mu.Unlock()
	if zone := loaded[name]; zone != nil {
		return zone, true
	}
	if unknown[name] {
		return nil, false
	}
	name = strings.Clone(name) // it may be part of a request
	zone, err := time.LoadLocation(name)
	if err != nil {
		if len(unknown) >= maxUnknown {
			clear(unknown)
		}
		unknown[name] = true
		return nil, false
	}
	loaded[name] = zone
	return zone, true
}
