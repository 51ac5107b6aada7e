package text

import (
	"strings"
	"sync"
	"time"
)

// maxZoneName is the most bytes of a name. The longest of the IANA database has 32.
const maxZoneName = 100

// maxUnknownZones is how many names without a zone are kept.
const maxUnknownZones = 100

var (
	zonesMu      sync.Mutex // guards the variables below
	loadedZones  = map[string]*time.Location{}
	unknownZones = map[string]bool{}
)

// LoadZone returns the zone of a name in the IANA database. It reads each zone once and keeps it: a
// zone is some kilobytes, and there are some hundred. It also keeps a few names without a zone,
// because on machines with Go each look-up searches Go's zone file, which takes 40 KiB.
func LoadZone(name string) (*time.Location, bool) {
	if len(name) > maxZoneName || name == "" || name == "Local" {
		return nil, false
	}
	zonesMu.Lock()
	defer zonesMu.Unlock()
	if zone := loadedZones[name]; zone != nil {
		return zone, true
	}
	if unknownZones[name] {
		return nil, false
	}
	name = strings.Clone(name) // name may be a part of a request's memory
	zone, err := time.LoadLocation(name)
	if err != nil {
		if len(unknownZones) >= maxUnknownZones {
			clear(unknownZones)
		}
		unknownZones[name] = true
		return nil, false
	}
	loadedZones[name] = zone
	return zone, true
}
