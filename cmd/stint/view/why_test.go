package view

import (
	"encoding/json"
	"strings"
	"testing"

	"stint/internal/testkit"
)

// What a candidate would decide stands below its limit.
func TestWhyCandidate(t *testing.T) {
	var a Why
	testkit.Must(t, json.Unmarshal([]byte(`{"allowed":false,"reason":"rate_limited","wait_ms":600,"limits":[{"rule":"orders","coordination":"strict","allowed":false,"denies":true,
		"config":{"algorithm":"fixed_window","requests":20,"per":"1d"},"before":{"limit":20,"used":20},"after":{"limit":20,"used":20},"retry_after_ms":600,
		"candidate":{"config":{"algorithm":"fixed_window","requests":50,"per":"1d"},"allowed":true,"after":{"limit":50,"used":26},"retry_after_ms":0}}]}`), &a))
	var out strings.Builder
	a.Print(&out, "shop", []string{"user=42"})
	if want := "\n\t\t26 of 50\t-\t\tfixed_window 50 per 1d (candidate)\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("%q does not end with %q", out.String(), want)
	}
	a.Limits[0].Candidate.Allowed, a.Limits[0].Candidate.RetryAfterMS = false, -1
	out.Reset()
	a.Print(&out, "shop", []string{"user=42"})
	if want := "\n\t\tdenied\tnever\t\tfixed_window 50 per 1d (candidate)\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("%q does not end with %q", out.String(), want)
	}
}
