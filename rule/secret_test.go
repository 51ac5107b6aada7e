package rule_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"stint/rule"
	"stint/rule/rulefile"
)

const secretHash = "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab"

const secretRules = `
domain: api
descriptors:
  - key: key
    value: ` + secretHash + `
    rate_limit: {unit: minute, requests_per_unit: 9}
  - key: key
    rate_limit: {unit: minute, requests_per_unit: 5}
    descriptors:
      - key: path
        rate_limit: {unit: minute, requests_per_unit: 5}
  - key: who
    rate_limit: {unit: minute, requests_per_unit: 5}
  - key: plan
    rate_limit: {unit: minute, requests_per_unit: 5}
http:
  rate_limits:
    - actions: [{api_key: {header_name: X-Api-Key, descriptor_key: key}}, {path: {}}]
    - actions: [{first_of: [{cookie: {name: session, descriptor_key: who}}, {remote_address: {}}]}]
    - actions: [{cookie: {name: plan, descriptor_key: plan, hashed: false}}]
`

// Hashes of secrets are protected in keys, whatever produced them. All other values are as they
// were.
func TestAppendKeyed(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "a.yaml", Data: []byte(secretRules)})
	if err != nil {
		t.Fatal(err)
	}
	if !table.HoldsSecrets() {
		t.Error("the table is said to hold no secrets")
	}
	domain := table.Domain("api")
	one, other := rule.NewKeySecret([]byte("one secret of the namespace")), rule.NewKeySecret([]byte("other secret of the namespace"))
	if one.Fingerprint() == other.Fingerprint() || len(one.Fingerprint()) != 32 {
		t.Errorf("fingerprints %s and %s", one.Fingerprint(), other.Fingerprint())
	}
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte("the key of a client")))
	for _, test := range []struct {
		entries []rule.Entry
		keyed   int // how many of the values are protected
	}{
		{[]rule.Entry{{Key: "key", Value: hash}}, 1},
		{[]rule.Entry{{Key: "key", Value: hash}, {Key: "path", Value: "/orders"}}, 1},
		{[]rule.Entry{{Key: "key", Value: "in plain text"}}, 1},
		{[]rule.Entry{{Key: "key", Value: strings.Repeat("long", 100)}}, 1},
		{[]rule.Entry{{Key: "who", Value: hash}}, 1},
		{[]rule.Entry{{Key: "key", Value: secretHash}}, 1},
		{[]rule.Entry{{Key: "plan", Value: "free"}}, 0},
	} {
		rules := domain.Match(test.entries)
		if len(rules) != 1 {
			t.Fatalf("%v: %d rules", test.entries, len(rules))
		}
		plain := rules[0].AppendKey(nil, test.entries)
		if again := rules[0].AppendKeyed(nil, test.entries, nil); !bytes.Equal(again, plain) {
			t.Errorf("%v: %q without a secret, %q as ever", test.entries, again, plain)
		}
		key := rules[0].AppendKeyed(nil, test.entries, one)
		if !bytes.Equal(key, rules[0].AppendKeyed(nil, test.entries, one)) {
			t.Errorf("%v: two keys under one secret", test.entries)
		}
		differs := !bytes.Equal(key, plain) && !bytes.Equal(key, rules[0].AppendKeyed(nil, test.entries, other))
		if differs != (test.keyed > 0) {
			t.Errorf("%v: plain %q, keyed %q", test.entries, plain, key)
		}
		if bytes.Contains(key, []byte(test.entries[0].Value)) != (test.keyed == 0) {
			t.Errorf("%v: %q", test.entries, key)
		}
		if test.entries[0].Value == secretHash {
			if pool, end := rules[0].AppendPool(nil, one); !bytes.Equal(pool[:end], key) {
				t.Errorf("a pool has the key %q, its own requests %q", pool[:end], key)
			}
		}
		if len(test.entries) > 1 && !bytes.Contains(key, []byte("7:/orders")) {
			t.Errorf("%v: %q lacks the path", test.entries, key)
		}
	}
	mac := hmac.New(sha256.New, []byte("one secret of the namespace"))
	mac.Write([]byte(hash))
	entries := []rule.Entry{{Key: "key", Value: hash}}
	if key := domain.Match(entries)[0].AppendKeyed(nil, entries, one); !bytes.HasSuffix(key, mac.Sum([]byte("*"))) {
		t.Errorf("%q is not the HMAC-SHA-256", key)
	}
}

// A derived secret is one for each secret and purpose, and no protected form of a value.
func TestDerive(t *testing.T) {
	one, other := rule.NewKeySecret([]byte("one secret of the namespace")), rule.NewKeySecret([]byte("other secret of the namespace"))
	derived := one.Derive("bills")
	if len(derived) != sha256.Size || !bytes.Equal(derived, one.Derive("bills")) {
		t.Errorf("%x, want the same 32 bytes each time", derived)
	}
	for name, same := range map[string][]byte{
		"another purpose": one.Derive("facts"), "another secret": other.Derive("bills"),
		"the purpose as a value": one.Append(nil, "bills")[1:], "what is derived from": one.Append(nil, "stint, secret for bills")[1:],
	} {
		if bytes.Equal(derived, same) {
			t.Errorf("%s gives the same secret", name)
		}
	}
}
