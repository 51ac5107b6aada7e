package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

// Every command over the admin API says which role it needs, and shows an example.
func TestHelp(t *testing.T) {
	for _, c := range AdminCommands() {
		_, role, found := strings.Cut(c.Text, "The role of the token must be ")
		if !found || !strings.Contains(role, "read") && !strings.Contains(role, "support") && !strings.Contains(role, "write") {
			t.Errorf("%s: the help names no role: %s", c.Name, c.Text)
		}
		if !strings.Contains(c.Text, "\n  stint "+c.Name) && c.Name != "limits" && c.Name != "health" {
			t.Errorf("%s: the help has no example: %s", c.Name, c.Text)
		}
		if !strings.Contains(c.Flags(), "--admin-token-file") {
			t.Errorf("%s: the help has not all flags: %s", c.Name, c.Flags())
		}
	}
}

// Wrong use is refused before anybody is asked, and has a hint.
func TestWrongUse(t *testing.T) {
	for _, c := range AdminCommands() {
		var usage *UsageError
		err := c.Run(context.Background(), Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, []string{"--nonsense"})
		if !errors.As(err, &usage) || usage.Hint == "" {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

func TestChanges(t *testing.T) {
	for _, tt := range []struct{ before, after, want string }{
		{`{"rule":"r","requests":100,"per":60000000000}`, `{"rule":"r","requests":1000,"per":60000000000}`, "requests 100 -> 1000"},
		{``, `{"target":"user=1","per":90000000000,"until":"2030-01-01T00:00:00Z"}`, "per 90s"},
		{`{"unlimited":true,"why":"x"}`, ``, "unlimited was true"},
		{`{"plan":"gold"}`, `{}`, "plan gold -> -"},
		{`null`, `[]`, ""},
		{``, ``, ""},
	} {
		raw := func(text string) json.RawMessage {
			if text == "" {
				return nil
			}
			return json.RawMessage(text)
		}
		if got := changes(raw(tt.before), raw(tt.after)); got != tt.want {
			t.Errorf("%s to %s: %q, want %q", tt.before, tt.after, got, tt.want)
		}
	}
}
