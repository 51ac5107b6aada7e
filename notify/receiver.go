package notify

import (
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"

	"stint/internal/text"
)

// Receiver is where events go: a URL, or a file of JSON lines. Receivers stand in the config file only, so that
// nobody can send events elsewhere through an API.
type Receiver struct {
	// Name is the name in logs, metrics and commands, up to 64 letters, digits and the signs . _ -
	Name string

	// URL gets a webhook for each event; "" for a receiver with a File.
	URL string

	// SecretFile is the file with the secrets that sign webhooks; see [ParseSecrets]. It is read again
	// for each try, so that a new secret needs no restart.
	SecretFile string

	// Allow are the addresses that a webhook may go to although they are not public. None by default.
	Allow []netip.Prefix

	// File gets a line in JSON for each event, - is standard output; "" for a receiver with a URL.
	File string

	// Rules are the names of the rules whose events it gets; a * stands for any text. None: all rules.
	Rules []string

	// Thresholds are the thresholds in percent whose events it gets. None: all thresholds.
	Thresholds []int
}

// stdout is the File of standard output.
const stdout = "-"

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Error is what is wrong with a receiver or the file of deliveries.
type Error struct {
	Where   string // the receiver and the field, or the file
	Problem string
	Hint    string // what to do
	Err     error  // the cause; may be nil
}

// Error returns the place and the problem, without the hint.
func (e *Error) Error() string { return e.Where + ": " + e.Problem }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Check returns what is wrong with the values of the receiver, nil if nothing is. It opens no file.
func (r *Receiver) Check() *Error {
	wrong := func(field, problem, hint string) *Error { return &Error{Where: field, Problem: problem, Hint: hint} }
	switch {
	case !validName.MatchString(r.Name):
		return wrong("name", fmt.Sprintf("%.80q is not a name of a receiver", r.Name), "write up to 64 letters, digits and the signs . _ -")
	case r.File != "" && r.URL != "":
		return wrong("url", "given together with file", "write two receivers, each with a name of its own")
	case r.File != "" && r.SecretFile != "":
		return wrong("secret_file", "lines in a file are not signed", "leave it out")
	case r.File != "" && len(r.Allow) > 0:
		return wrong("allow_private", "lines in a file go to no address", "leave it out")
	case r.File == "" && r.URL == "":
		return wrong("url", "missing", "write a URL such as https://hooks.example.com/stint, or type: lines and file: FILE")
	case r.File == "" && r.SecretFile == "":
		return wrong("secret_file", "missing: the receiver could not know who sent an event", SecretHint)
	}
	if r.URL != "" {
		if problem, hint := CheckURL(r.URL); problem != "" {
			return wrong("url", problem, hint)
		}
	}
	if i := slices.Index(r.Rules, ""); i >= 0 {
		return wrong("rules", "one has no name", "write names of rules such as api/user, or patterns such as api/*")
	}
	for _, t := range r.Thresholds {
		if t < 1 || t > 100 {
			return wrong("thresholds", fmt.Sprintf("%d%% is no threshold", t), "write whole numbers from 1% to 100%")
		}
	}
	return nil
}

// Wants reports whether the receiver gets an event.
func (r *Receiver) Wants(e *Event) bool {
	if len(r.Thresholds) > 0 && !slices.Contains(r.Thresholds, e.Threshold) {
		return false
	}
	return len(r.Rules) == 0 || slices.ContainsFunc(r.Rules, func(pattern string) bool {
		if !strings.Contains(pattern, "*") {
			return pattern == e.Rule
		}
		glob := text.NewGlob(pattern)
		return glob.Matches(e.Rule)
	})
}

// Place returns where the events go, for people. It leaves out the path of a URL, which may be secret.
func (r *Receiver) Place() string {
	switch {
	case r.URL != "":
		return placeOfURL(r.URL)
	case r.File == stdout:
		return "standard output"
	}
	return r.File
}

// readSecrets reads the secrets of a receiver with a URL.
func (r *Receiver) readSecrets() ([]Secret, error) {
	content, err := os.ReadFile(r.SecretFile)
	if err != nil {
		return nil, &Error{"secret_file", "cannot read " + r.SecretFile + ": " + text.Cause(err), "check the path and its permissions", err}
	}
	secrets, err := ParseSecrets(content)
	if err != nil {
		return nil, &Error{"secret_file", r.SecretFile + ": " + err.Error(), SecretHint, err}
	}
	return secrets, nil
}
