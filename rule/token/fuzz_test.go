package token

import "testing"

// No file makes ParseKeys panic, and each key has an algorithm.
func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"},{"kty":"RSA","n":"AQAB","e":"AQAB"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`))
	f.Add([]byte("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := ParseKeys(data)
		if err != nil {
			return
		}
		for _, k := range keys.all {
			if len(k.algorithms) == 0 {
				t.Errorf("%q: a key for nothing", data)
			}
		}
		v := New(Config{Source: keys})
		if _, ok := v.Claim("eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhIiwiZXhwIjo5OTk5OTk5OTk5fQ.AAAA", "sub"); ok {
			t.Errorf("%q believes anybody", data)
		}
	})
}
