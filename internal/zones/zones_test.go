package zones

import (
	"strconv"
	"strings"
	"testing"
)

func TestLoad(t *testing.T) {
	first, ok := Load("Europe/Madrid")
	again, same := Load("Europe/Madrid")
	if !ok || !same || first != again || first.String() != "Europe/Madrid" {
		t.Errorf("%v %v, again %v %v", first, ok, again, same)
	}
	for i := range 3 * maxUnknown {
		Load("Nowhere/" + strconv.Itoa(i))
	}
	if n := len(unknown); n > maxUnknown {
		t.Errorf("%d unknown names are kept, at most %d", n, maxUnknown)
	}
	for _, name := range []string{"", "Local", "../zoneinfo", "Nowhere/Else", "Nowhere/Else", "/etc/passwd", strings.Repeat("x", 101)} {
		if zone, ok := Load(name); ok {
			t.Errorf("%q is %v", name, zone)
		}
	}
	if n := len(loaded); n != 1 {
		t.Errorf("%d zones are kept, want 1", n)
	}
}
