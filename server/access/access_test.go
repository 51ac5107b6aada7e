package access

import (
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	token, credential := NewToken()
	second, other := NewToken()
	l, err := Parse("access", []byte("# who may call\n\noncall support "+credential+"\noncall\tsupport\t"+other+"\r\ndeploy write  cert:CN=deploy,O=An Example\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, have := range []string{token, second} {
		if c, ok := l.Token(have); !ok || c != (Caller{"oncall", Support}) {
			t.Errorf("%v %v", c, ok)
		}
	}
	if c, ok := l.Certificate("CN=deploy,O=An Example"); !ok || c != (Caller{"deploy", Write}) {
		t.Errorf("%v %v", c, ok)
	}
	for _, no := range []string{"", token[:len(token)-1], token + "A", credential, strings.TrimPrefix(credential, "sha256:")} {
		if c, ok := l.Token(no); ok {
			t.Errorf("%q is %v", no, c)
		}
	}
	if _, ok := l.Certificate("CN=deploy"); ok || l.Len() != 3 {
		t.Errorf("%d callers", l.Len())
	}
	if len(token) < 28 || token == second || strings.Contains(credential, token) {
		t.Errorf("%s %s %s", token, second, credential)
	}
}

func TestParseFaults(t *testing.T) {
	_, a := NewToken()
	token, b := NewToken()
	for content, want := range map[string]string{
		"":                               ":1: the file names nobody",
		"# nobody\n":                     ":1: the file names nobody",
		"oncall support " + token:        ":1: the credential begins with neither",
		"oncall support sha256:" + token: ":1: sha256: is not followed",
		"oncall support sha256:00":       ":1: sha256: is not followed",
		"oncall root " + a:               ":1: there is no role \"root\"",
		"oncall " + a:                    ":1: a name, a role and a credential",
		"on/call read " + a:              ":1: \"on/call\" is no name",
		"a read " + a + "\nb read " + a:  ":2: this is the token of a too",
		"a read cert:":                   ":1: the subject",
		"a read cert:x\nb read cert:x":   ":2: the subject",
		"a read " + b + "\n" + strings.Repeat("x", maxLine+1): ":2: the line is longer",
	} {
		l, err := Parse("access", []byte(content))
		var fault *Error
		if l != nil || !errors.As(err, &fault) || !strings.Contains(err.Error(), "access"+want) || fault.Hint == "" {
			t.Errorf("%.60q: %v", content, err)
		}
		if err != nil && strings.Contains(err.Error(), token) {
			t.Errorf("%v shows a token", err)
		}
	}
}

func TestRoles(t *testing.T) {
	for _, r := range []Role{Read, Support, Write} {
		if got, err := ParseRole(r.String()); got != r || err != nil {
			t.Errorf("%v: %v %v", r, got, err)
		}
	}
	if Read >= Support || Support >= Write {
		t.Error("a role may not do what those before it may")
	}
}
