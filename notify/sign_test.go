package notify

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
)

// The example of the specification, and a second secret.
func TestSignatures(t *testing.T) {
	const first = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	secrets, err := ParseSecrets([]byte("\n" + first + "\r\n whsec_" + strings.Repeat("A", 32) + "\n"))
	testkit.Must(t, err)
	got := signatures(secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	one, two, both := strings.Cut(got, " ")
	if one != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" || !both || !strings.HasPrefix(two, "v1,") || one == two {
		t.Errorf("signatures are %s", got)
	}
	if shown := fmt.Sprintf("%v %+v %#v %s", secrets, secrets, secrets, secrets[0]); strings.Contains(shown, "MfKQ") || strings.Contains(shown, "49") {
		t.Errorf("a secret is printed: %s", shown)
	}
}

func TestParseSecretsRefuses(t *testing.T) {
	for content, want := range map[string]string{
		"":                                    "no secret",
		"hunter2hunter2":                      "line 1 is no secret: it does not begin with whsec_",
		"\nwhsec_hunter2!":                    "line 2 is no secret: whsec_ is not followed by base64",
		"whsec_aHVudGVyMg==":                  "the secret in line 1 has 7 bytes, and must have 24 to 64",
		"whsec_" + strings.Repeat("AAAA", 22): "has 66 bytes",
		strings.Repeat("whsec_"+strings.Repeat("A", 32)+"\n", 9): "holds 9 secrets",
	} {
		_, err := ParseSecrets([]byte(content))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", content, err, want)
		} else if strings.Contains(err.Error(), "hunter") {
			t.Errorf("%v: shows the secret", err)
		}
	}
}
