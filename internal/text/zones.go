package text

import (
	"strings"
	"sync"
	"time"
)

// maxZoneName is the most bytes of a name. The longest of the IANA database has 32.
const maxZoneName = 100

// maxUnknownZones is how many names are kept that no zone has.
const maxUnknownZones = 100

var (
	zonesMu      sync.Mutex // guards what follows
	loadedZones  = map[string]*time.Location{}
	unknownZones = map[string]bool{}
)

// LoadZone returns the zone of a name of the IANA database. It reads each zone once and keeps
// it, because a zone is some kilobytes and a name is a few bytes; there are some hundred
// zones. Of names that no zone has it keeps a few: where Go is installed, its own file of
// zones is looked through for each, which takes 40 KiB.
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
	name = strings.Clone(name) // it may be part of a request
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
