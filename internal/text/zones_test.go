package text

import (
	"strconv"
	"strings"
	"testing"
)

func TestLoad(t *testing.T) {
	first, ok := LoadZone("Europe/Madrid")
	again, same := LoadZone("Europe/Madrid")
	if !ok || !same || first != again || first.String() != "Europe/Madrid" {
		t.Errorf("%v %v, again %v %v", first, ok, again, same)
	}
	for i := range 3 * maxUnknownZones {
		LoadZone("Nowhere/" + strconv.Itoa(i))
	}
	if n := len(unknownZones); n > maxUnknownZones {
		t.Errorf("%d unknown names are kept, at most %d", n, maxUnknownZones)
	}
	for _, name := range []string{"", "Local", "../zoneinfo", "Nowhere/Else", "Nowhere/Else", "/etc/passwd", strings.Repeat("x", 101)} {
		if zone, ok := LoadZone(name); ok {
			t.Errorf("%q is %v", name, zone)
		}
	}
	if n := len(loadedZones); n != 1 {
		t.Errorf("%d zones are kept, want 1", n)
	}
}
