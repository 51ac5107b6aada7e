package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/records"
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
		if groups := c.Flags(); groups[len(groups)-1].Flags.Lookup("admin-token-file") == nil {
			t.Errorf("%s: the help has not all flags", c.Name)
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

// An error about a header names the flag from which the header comes.
func TestRefusedNamesFlag(t *testing.T) {
	var refusal *Refusal
	err := refused(400, []byte(`{"error":{"message":"X-Stint-Why: longer than 4096 bytes; shorten it"}}`))
	if !errors.As(err, &refusal) || refusal.Problem != "the service answered 400: --why: longer than 4096 bytes" || refusal.Hint != "shorten it" {
		t.Errorf("%+v", err)
	}
}

// A value that is no number is refused in words, not with an error of Go.
func TestNoNumber(t *testing.T) {
	for _, value := range []string{"ten", "-1", "10/minute", "99999999999999999999"} {
		var usage *UsageError
		err := runOverride(t.Context(), Streams{}, []string{"--rule", "api/user", "--requests", value, "user=1"})
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), `"`+value+`" is not a whole number`) || strings.Contains(err.Error(), "strconv") {
			t.Errorf("%v", err)
		}
	}
}

// Each head that is given is compared, not only the last one; and what cannot be verified is not whole.
func TestVerifyFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "records.db")
	file, err := records.Open(path, records.Options{})
	testkit.Must(t, err)
	_, err = file.Apply(t.Context(), records.Change{Edits: []records.Edit{{Put: records.Ban{Subject: "user=1"}}}}, time.Now())
	testkit.Must(t, err)
	number, hash := file.Head()
	testkit.Must(t, file.Close())
	right, wrong := fmt.Sprint(number, ":", hash), fmt.Sprint(number, ":", strings.Repeat("a", 64))
	empty := filepath.Join(dir, "empty.db")
	testkit.Must(t, os.WriteFile(empty, nil, 0o600))
	for _, tt := range []struct {
		args []string
		want string // the beginning of the output, or of the error
	}{
		{[]string{"--file", path, "--head", right}, "whole"},
		{[]string{"--file", path, "--head", wrong, "--head", right}, "broken: entry 1:"},
		{[]string{"--file", path, "--head", right, "--head", wrong}, "broken: entry 1:"},
		{[]string{"--file", empty}, "--file: " + empty + " is empty"},
	} {
		var out strings.Builder
		err := runAuditVerify(t.Context(), Streams{Out: &out}, tt.args)
		if got := out.String() + fmt.Sprint(err); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%q: %s", tt.args, got)
		}
	}
}
