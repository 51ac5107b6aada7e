package view

import (
	"encoding/json"
	"testing"
)

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
		if got := Changes(raw(tt.before), raw(tt.after)); got != tt.want {
			t.Errorf("%s to %s: %q, want %q", tt.before, tt.after, got, tt.want)
		}
	}
}
