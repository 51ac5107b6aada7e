package view

import (
	"bytes"
	"encoding/json"
	"testing"
)

// Rollovers stand before the grants of their subject, and have no ID.
func TestUsageOfGrants(t *testing.T) {
	const until = `"until":"2026-04-15T00:00:00Z"}`
	var a Usage
	err := json.Unmarshal([]byte(`{"grants":[
		{"subject":"user=42","rule":"api/user","limit":"api","grant":"gift","units":7,"used":3,"left":4,`+until+`,
		{"subject":"user=43","rule":"api/user","limit":"api","grant":"later","units":9,"left":9,"from":"2026-04-01T00:00:00Z",`+until+`],
		"rollovers":[{"subject":"user=42","rule":"api/user","limit":"api","units":20,"used":5,"left":15,`+until+`]}`), &a)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	a.Print(&out, false)
	const want = "SUBJECT\tRULE\tGRANT\tLEFT\n" +
		"user=42\tapi/user api\t(rollover)\t15 of 20 left until 2026-04-15T00:00:00Z\n" +
		"user=42\tapi/user api\tgift\t4 of 7 left until 2026-04-15T00:00:00Z\n" +
		"user=43\tapi/user api\tlater\t9 of 9 left until 2026-04-15T00:00:00Z, from 2026-04-01T00:00:00Z\n"
	if out.String() != want {
		t.Errorf("%s\nwant %s", out.String(), want)
	}
	a = Usage{Rollovers: a.Rollovers}
	out.Reset()
	if a.Print(&out, false); out.String() != want[:len("SUBJECT\tRULE\tGRANT\tLEFT\n")+len("user=42\tapi/user api\t(rollover)\t15 of 20 left until 2026-04-15T00:00:00Z\n")] {
		t.Errorf("a rollover alone: %s", out.String())
	}
}
