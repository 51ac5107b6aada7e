package main

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/internal/testkit/programs"
)

func TestMain(m *testing.M) { programs.Main(m) }

// shown is what the example prints, step by step.
var shown = []string{
	`\$ stint plans give --why "order 4711" pro user=bob\nuser=bob: plan pro\n`,
	`# 5 times\nallowed, 4 of 5 left\nallowed, 3 of 5 left\nallowed, 2 of 5 left\nallowed, 1 of 5 left\nallowed, 0 of 5 left\n`,
	`"ann"\}\]\}\]\}'\ndenied \(quota_exceeded\), 0 of 5 left\n`,
	`"bob"\}\]\}\]\}'   # 6 times\n(?s:.*?)allowed, 994 of 1000 left\n`,
	`user=ann: plan pro\n(?s:.*?)allowed, 994 of 1000 left\n`,
	`\$ stint plans give --why "cancelled 4712" "" user=ann\nuser=ann: the default plan\n(?s:.*?)denied \(quota_exceeded\), 0 of 5 left\n`,
	`\{"type":"usage.threshold",.*"subject":"user=ann","plan":"free","threshold":80,"used":4,"of":5,.*\n\n.*"plan":"free","threshold":100,"used":5,"of":5,`,
	`shop +http://127\.0\.0\.1:\d+ +active `,
	`\$ stint usage --json user=ann\n\{"usage":\[\{.*"subject":"user=ann","plan":"pro",.*"used":6,"open":true\}\]\}\n`,
	`\nuse_[0-9a-f]{32},api,api/user,calls,user=ann,pro,.*,6,true\nuse_[0-9a-f]{32},api,api/user,calls,user=bob,pro,.*,6,true\nuse_[0-9a-f]{32},api,api/user,calls,user=eve,free,.*,2,true\n`,
	`\$ stint usage --plans\n(?s:.*?)pro +api/user .* 2 +12 so far\nfree +api/user .* 1 +2 so far\n`,
	`/v1/me/usage\n\{"subject":"user=ann","plan":"free","limits":\[\{.*"requests":5,"used":6,"left":0,`,
	`\$ stint override --rule api/user --requests 20 --until \d{4}-\d\d-\d\dT00:00:00Z --why "ticket 17" user=ann\noverride: user=ann of api/user: requests 20, until `,
	`allowed, 13 of 20 left\n`,
	`(?m)^5 .* override user=ann of api/user .* ticket 17$`,
	`(?m)^3 .* subject user=ann .* cancelled 4712$`,
	`(?m)^1 .* subject user=bob .* order 4711$`,
	`whole +entries 1 to 5`,
}

// The example shows all steps in order, and leaves no files.
func TestPlans(t *testing.T) {
	binary := programs.Build(t)
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("STINT_RULES", "not of the service")
	var out bytes.Buffer
	err := run(t.Context(), &out, binary)
	t.Log(out.String())
	testkit.Must(t, err)
	rest := out.String()
	for _, step := range shown {
		at := regexp.MustCompile(step).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("it does not print %q, or not in order", step)
		}
		rest = rest[at[1]:]
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

// A step that ends otherwise than it should ends the example with an error.
func TestOtherOutcome(t *testing.T) {
	binary := programs.Build(t)
	before := rules
	t.Cleanup(func() { rules = before })
	for from, want := range map[string]string{
		"requests: 5,": "call 5 of ann is allowed, 1 of 6 left; it should be allowed, 0 of 5 left",
		"domain: api":  `rules.yaml:1: unknown word "requests" in the file`,
	} {
		rules = strings.Replace(before, from, "requests: 6,", 1)
		var out bytes.Buffer
		if err := run(t.Context(), &out, binary); err == nil || !strings.Contains(err.Error()+out.String(), want) {
			t.Errorf("%s: error %v, want %s\n%s", from, err, want, out.String())
		}
	}
}

// The receiver refuses forged webhooks, and a wait for an event that does not arrive ends with its context.
func TestReceiver(t *testing.T) {
	r, err := newReceiver(t.TempDir() + "/secret")
	testkit.Must(t, err)
	defer r.stop()
	at, body := "1795694400", []byte("{}")
	if r.genuine("v1,AAAA v1,", "id", at, body) || r.genuine("", "id", "soon", body) {
		t.Error("a forged webhook is genuine")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := r.wait(ctx, "user=ann", 80); err == nil || !strings.Contains(err.Error(), "80 % of user=ann did not arrive") {
		t.Errorf("error %v", err)
	}
}
