package rule_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stint/rule/rulefile"
)

// bearer returns a token that key has signed, written out by hand.
func bearer(t *testing.T, key *ecdsa.PrivateKey, claims string) string {
	t.Helper()
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"ES256","typ":"JWT"}`)) + "." + encode([]byte(claims))
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	var signature [64]byte
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return text + "." + encode(signature[:])
}

// A user is the claim of a token that one of the rule file's keys signed. A client with any other
// token is counted by its address.
func TestBearerClaim(t *testing.T) {
	dir := t.TempDir()
	ours, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	theirs, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	der, err := x509.MarshalPKIXPublicKey(&ours.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	keys, rules := filepath.Join(dir, "keys.pem"), filepath.Join(dir, "rules.yaml")
	write := func(name string, text []byte) {
		t.Helper()
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(keys, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	write(rules, []byte("domain: api\nhttp: {rate_limits: [{actions: [{first_of: [\n"+
		"  {bearer_claim: {keys: keys.pem, audience: api, descriptor_key: user}}, {remote_address: {}}]}]}]}\n"))
	table, err := rulefile.Load(rules)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(table.Files(), []string{keys}) {
		t.Errorf("files %q", table.Files())
	}
	claims := fmt.Sprintf(`{"sub":"%%s","aud":"%%s","exp":%d}`, time.Now().Add(time.Hour).Unix())
	for name, tt := range map[string]struct{ authorization, want string }{
		"ours":          {"Bearer " + bearer(t, ours, fmt.Sprintf(claims, "ann", "api")), "user=ann"},
		"lower case":    {"bearer  " + bearer(t, ours, fmt.Sprintf(claims, "ann", "api")), "user=ann"},
		"after a tab":   {"bearer\t " + bearer(t, ours, fmt.Sprintf(claims, "ann", "api")) + " ", "user=ann"},
		"another's":     {"Bearer " + bearer(t, theirs, fmt.Sprintf(claims, "ann", "api")), "remote_address=192.0.2.1"},
		"for others":    {"Bearer " + bearer(t, ours, fmt.Sprintf(claims, "ann", "web")), "remote_address=192.0.2.1"},
		"nobody's":      {"Bearer " + bearer(t, ours, fmt.Sprintf(claims, "", "api")), "remote_address=192.0.2.1"},
		"junk":          {"Bearer x.y.z", "remote_address=192.0.2.1"},
		"another kind":  {"Basic YW5uOng=", "remote_address=192.0.2.1"},
		"nothing there": {"", "remote_address=192.0.2.1"},
	} {
		r := &request{headers: map[string]string{"authorization": tt.authorization}, address: netip.MustParseAddr("192.0.2.1")}
		if got := shown(t, table.Domain("api"), r); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}

	write(keys, []byte("secret"))
	if _, err := rulefile.Load(rules); err == nil || !strings.Contains(err.Error(), "rules.yaml:3: keys: keys.pem: no public key in PEM form") {
		t.Errorf("%v, want the file without a key refused", err)
	}
}
