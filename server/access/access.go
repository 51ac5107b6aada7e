// Package access knows who may call the admin endpoints: tokens and client certificates with a name
// and a role.
//
// They stand in a file, one in each line:
//
//	# name    role     credential
//	grafana   read     sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//	oncall    support  sha256:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752
//	deploy    write    cert:CN=deploy,O=Example
//
// The file has no token, only the SHA-256 of each. A token has 128 random bits, so a slow hash would
// add nothing. Two lines may have one name: then both tokens are valid, while one replaces the other.
package access

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

// Role is what a caller may do. Each role may do what those before it may.
type Role uint8

// The roles.
const (
	Read    Role = iota // look: limits, inspect, metrics, rules
	Support             // help a customer: reset
	Write               // change rules and loads, take profiles
)

var roleNames = [...]string{"read", "support", "write"}

// String returns the name of the role in files.
func (r Role) String() string { return roleNames[r] }

// ParseRole returns the role of that name.
func ParseRole(name string) (Role, error) {
	for r, n := range roleNames {
		if n == name {
			return Role(r), nil
		}
	}
	return 0, fmt.Errorf("there is no role %q: write read, support or write", name)
}

// Caller is who sent a call.
type Caller struct {
	Name string
	Role Role
}

// List holds the callers of a file. It never changes. The zero List has none.
type List struct {
	tokens map[[sha256.Size]byte]Caller
	certs  map[string]Caller // by subject, as in RFC 2253
}

// Error is a line of a file that cannot be used.
type Error struct {
	File          string
	Line          int
	Problem, Hint string
}

// Error returns the place and the problem, without the hint.
func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Problem) }

const (
	maxLine = 4 << 10 // bytes of a line

	form = "write NAME ROLE sha256:HEX, as stint token prints it, or NAME ROLE cert:SUBJECT"
)

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// CheckName returns an error if a caller cannot have this name.
func CheckName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("%.80q is no name: write up to 64 letters, digits and . _ @ -", name)
	}
	return nil
}

// Parse reads the content of a file. The error is an [*Error] about the first line that cannot be
// used; nothing of the file is used then.
func Parse(file string, content []byte) (*List, error) {
	l := &List{tokens: map[[sha256.Size]byte]Caller{}, certs: map[string]Caller{}}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		if problem, hint := l.add(text); problem != "" {
			return nil, &Error{file, n, problem, hint}
		}
	}
	if lines.Err() != nil {
		return nil, &Error{file, n + 1, fmt.Sprintf("the line is longer than %d bytes", maxLine), form}
	}
	if len(l.tokens)+len(l.certs) == 0 {
		return nil, &Error{file, max(n, 1), "the file names nobody, so nobody could call admin", form}
	}
	return l, nil
}

// add adds a line. It returns what is wrong with it, and what to do.
func (l *List) add(text string) (problem, hint string) {
	name, rest, _ := strings.Cut(text, " ")
	if strings.Contains(name, "\t") {
		name, rest, _ = strings.Cut(text, "\t")
	}
	word, credential, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(rest, "\t", " ")), " ")
	credential = strings.TrimSpace(credential)
	if word == "" || credential == "" {
		return "a name, a role and a credential are expected", form
	}
	if err := CheckName(name); err != nil {
		return err.Error(), form
	}
	role, err := ParseRole(word)
	if err != nil {
		return err.Error(), form
	}
	kind, value, _ := strings.Cut(credential, ":")
	switch kind {
	case "sha256":
		return l.addToken(Caller{name, role}, value)
	case "cert":
		if value == "" || l.certs[value].Name != "" {
			return "the subject of the certificate is empty, or stands in the file already", form
		}
		l.certs[value] = Caller{name, role}
		return "", ""
	}
	return "the credential begins with neither sha256: nor cert:", form
}

func (l *List) addToken(c Caller, value string) (problem, hint string) {
	hash, err := hex.DecodeString(value)
	if err != nil || len(hash) != sha256.Size {
		return "sha256: is not followed by 64 hexadecimal digits", "if that is the token itself, replace it: others may have read it. stint token prints a new one, and its line"
	}
	key := [sha256.Size]byte(hash)
	if other, known := l.tokens[key]; known {
		return fmt.Sprintf("this is the token of %s too", other.Name), "give each its own token, so that the log can tell them apart"
	}
	l.tokens[key] = c
	return "", ""
}

// Token returns who has a token.
func (l *List) Token(token string) (Caller, bool) {
	// A search by the hash reveals nothing about a token by the time that it takes.
	c, ok := l.tokens[sha256.Sum256([]byte(token))]
	return c, ok
}

// Certificate returns who has a certificate with a verified chain, by its subject as
// [crypto/x509/pkix.Name.String] writes it.
func (l *List) Certificate(subject string) (Caller, bool) {
	c, ok := l.certs[subject]
	return c, ok
}

// Len returns the number of lines that name a caller.
func (l *List) Len() int { return len(l.tokens) + len(l.certs) }

// NewToken returns a new token, and the credential of its line in a file.
func NewToken() (token, credential string) {
	token = "stint_" + rand.Text() // 130 random bits
	hash := sha256.Sum256([]byte(token))
	return token, "sha256:" + hex.EncodeToString(hash[:])
}
