package token

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"stint/internal/testkit"
)

// Parsing any unsigned token takes a limited amount of memory for each byte.
func TestDecodersAreFrugal(t *testing.T) {
	encode := base64.RawURLEncoding.EncodeToString
	head := encode([]byte(`{"alg":"ES256","kid":"a"}`))
	var seeds [][]byte
	add := func(header, payload string) {
		seeds = append(seeds, []byte(header+"."+encode([]byte(payload))+".aa"), []byte(encode([]byte(payload))+".e30.aa"))
	}
	for _, n := range []int{1, 20, 50, 100, 300, 700, 1900, 5900} {
		var members strings.Builder
		for i := range n {
			fmt.Fprintf(&members, `"%d":1,`, i)
		}
		add(head, `{`+members.String()+`"alg":"ES256"}`)
		for _, piece := range []string{"[", "{", "[],", "{},", "1,", `"",`, `"a",`, `{"a":1},`, `{"":0},`, "null,", `"\u0041",`, `"`} {
			if n*len(piece) < 6000 {
				add(head, `{"alg":"ES256","a":[`+strings.Repeat(piece, n)+`1]}`)
				add(head, strings.Repeat(piece, n))
			}
		}
	}
	v := New(Config{Source: new(Keys)})
	testkit.Frugal(t, seeds, func(input []byte) { v.Claim(string(input), "sub") })
}

// Usual tokens are parsed, even with many groups.
func TestModest(t *testing.T) {
	encode := base64.RawURLEncoding.EncodeToString
	for groups, name := range map[int]string{0: "", 50: "short", 150: "8f1f0a3c-5a3e-4a6e-9a4b-0c6ff3b1d2e4"} {
		list := strings.TrimSuffix(strings.Repeat(`"`+name+`",`, groups), ",")
		payload := `{"iss":"https://issuer.example","sub":"42","aud":["a","b"],"exp":1790000000,"iat":1,"nbf":1,"scope":"read write","realm_access":{"roles":["x","y"]},"groups":[` + list + `]}`
		token := encode([]byte(`{"alg":"RS256","typ":"JWT","kid":"key-1"}`)) + "." + encode([]byte(payload)) + "." + strings.Repeat("s", 342)
		if !modest(token) {
			t.Errorf("a token of %d bytes with %d groups is not looked at", len(token), groups)
		}
	}
}
