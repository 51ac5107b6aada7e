package action_test

import (
	"crypto/x509"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"stint/internal/strictyaml"
	"stint/internal/strictyaml/parser"
	"stint/rule/action"
)

var secret = []byte(strings.Repeat("s", 40))

// outside returns a file with one secret for all names but one, and verifiers that record their
// arguments.
type outside struct{}

func (outside) Open(v strictyaml.Value) ([]byte, bool) {
	if v.Text() == "short" {
		return []byte("short"), true
	}
	return secret, true
}

func (outside) Verifier(keys strictyaml.Value, t action.TokenTerms) action.Verifier {
	return verifier{keys.Text(), t}
}

type verifier struct {
	keys  string
	terms action.TokenTerms
}

func (verifier) Claim(token, name string) (string, bool) { return name, token == "good" }

// deviceAction reads an action whose secret file has one secret.
func deviceAction(t *testing.T, yaml string) *action.List {
	t.Helper()
	doc := parser.Parse([]byte("[" + yaml + "]"))
	list := action.Read(doc.Root(), action.Paths{}, outside{})
	for _, f := range doc.Faults() {
		t.Fatalf("%s: %+v", yaml, f)
	}
	return list
}

// A device is identified by a cookie that we signed. A client without one gets a cookie, and has no
// ID until it sends the cookie back.
func TestDeviceCookie(t *testing.T) {
	list := deviceAction(t, `{device: {cookie: {name: d, secret_file: f, max_age: 30d}, descriptor_key: k}}`)
	signer := action.NewDeviceSigner("d", [][]byte{secret}, 30*24*time.Hour)
	now := time.Now()
	good, old := signer.Issue(now), signer.Issue(now.Add(-20*24*time.Hour))
	gone, forged := signer.Issue(now.Add(-31*24*time.Hour)), action.NewDeviceSigner("d", [][]byte{[]byte("x")}, time.Hour).Issue(now)
	id := func(cookie string) string {
		id, _, _ := signer.Read(cookie, now)
		return id
	}
	for name, tt := range map[string]struct {
		cookies []string // values of the Cookie header
		want    string   // the ID; "" for none
		set     bool     // whether the answer sets a cookie
	}{
		"good":             {[]string{"d=" + good}, id(good), false},
		"in the middle":    {[]string{"a=b; d=" + good + "; c"}, id(good), false},
		"half its age":     {[]string{"d=" + old}, id(old), true},
		"none":             {nil, "", true},
		"empty":            {[]string{"d="}, "", true},
		"unsigned":         {[]string{"d=" + id(good)}, "", true},
		"forged":           {[]string{"d=" + forged}, "", true},
		"too old":          {[]string{"d=" + gone}, "", true},
		"8 KiB":            {[]string{"d=" + strings.Repeat("A", 8<<10)}, "", true},
		"another name":     {[]string{"e=" + good}, "", true},
		"behind forged":    {[]string{"d=" + forged, "d=1; d=" + good}, id(good), false},
		"behind many more": {[]string{strings.Repeat("d=1; ", 1000) + "d=" + good}, "", true},
	} {
		r := &full{plain: plain{header: http.Header{"Cookie": tt.cookies}}}
		entries, ok := list.Describe(nil, r, "")
		if ok != (tt.want != "") || ok && (entries[0] != action.Entry{Key: "k", Value: tt.want}) {
			t.Errorf("%s: %v, %v, want %q", name, entries, ok, tt.want)
		}
		if tt.set != (len(r.set) == 1) {
			t.Errorf("%s: cookies %v", name, r.set)
			continue
		}
		for _, c := range r.set {
			fresh := id(c.Value)
			if fresh == "" || tt.want != "" && fresh != tt.want {
				t.Errorf("%s: a cookie of device %q", name, fresh)
			}
			c.Value = "*"
			if got := c.String(); got != "d=*; Path=/; Max-Age=2592000; HttpOnly; Secure; SameSite=Lax" {
				t.Error(got)
			}
		}
	}
	if entries, ok := list.Describe(nil, &plain{header: http.Header{"Cookie": {"d=" + good}}}, ""); !ok || entries[0].Value != id(good) {
		t.Error("not known where answers carry no cookies")
	}
	if _, ok := list.Describe(nil, new(plain), ""); ok {
		t.Error("known without a cookie")
	}

	bare := deviceAction(t, `{device: {cookie: {secret_file: f, secure: false}}}`)
	r := new(full)
	bare.Describe(nil, r, "")
	r.set[0].Value = "*"
	if got := r.set[0].String(); got != "stint_device=*; Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax" {
		t.Error(got)
	}
}

// A device is identified by a header of a trusted proxy or by a certificate.
func TestDeviceByOthers(t *testing.T) {
	header, cert := `{device: {header: x-device-id}}`, `{device: {certificate: {}}}`
	for name, tt := range map[string]struct {
		action string
		a      action.Attributes
		want   string
	}{
		"by a proxy":      {header, &full{plain: plain{header: http.Header{"X-Device-Id": {"d1"}}}, trusted: true}, "device=d1"},
		"by anybody":      {header, &full{plain: plain{header: http.Header{"X-Device-Id": {"d1"}}}}, ""},
		"twice":           {header, &full{plain: plain{header: http.Header{"X-Device-Id": {"d1", "d2"}}}, trusted: true}, ""},
		"empty":           {header, &full{plain: plain{header: http.Header{"X-Device-Id": {""}}}, trusted: true}, ""},
		"too long":        {header, &full{plain: plain{header: http.Header{"X-Device-Id": {strings.Repeat("x", 257)}}}, trusted: true}, ""},
		"not there":       {header, &full{trusted: true}, ""},
		"who knows":       {header, &plain{header: http.Header{"X-Device-Id": {"d1"}}}, ""},
		"a certificate":   {cert, &full{cert: &x509.Certificate{Raw: []byte("c")}}, "device=" + hash("c")},
		"no certificate":  {cert, &full{}, ""},
		"a certificate's": {cert, new(plain), ""},
	} {
		if got := describe(t, tt.action, tt.a); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// Every fault of a device action is reported.
func TestBadDevice(t *testing.T) {
	for yaml, want := range map[string]string{
		`{device: {}}`:                                      "a device needs exactly one of cookie, header and certificate",
		`{device: }`:                                        "a device needs exactly one of cookie, header and certificate",
		`{device: {header: h, certificate: {}}}`:            "a device needs exactly one of cookie, header and certificate",
		`{device: {header: ""}}`:                            "an empty text",
		`{device: {cookie: {}}}`:                            "a device's cookie without secret_file",
		`{device: {cookie: {secret: s}}}`:                   `unknown word "secret"`,
		`{device: {cookie: {secret_file: short}}}`:          "secret_file: short: line 1 has 5 bytes, but a secret needs at least 32",
		`{device: {cookie: {secret_file: f, name: "a b"}}}`: `name: "a b" is not a valid cookie name`,
		`{device: {cookie: {secret_file: f, name: __Host-d, secure: false}}}`: "browsers drop __Host-d if secure is false",
		`{device: {cookie: {secret_file: f, max_age: 500d}}}`:                 "max_age: 500d",
		`{device: {cookie: {secret_file: f, max_age: 1s}}}`:                   "max_age: 1s",
		`{device: {cookie: {secret_file: f, max_age: 365}}}`:                  `max_age: "365" is a number without a unit`,
		`{bearer_claim: {keys: k, allow_http: maybe}}`:                        "expected true or false",
		`{bearer_claim: {keys: k, skip_if_absent: "x"}}`:                      "expected true or false",
		`{device: {certificate: {part: common_name}}}`:                        `unknown word "part"`,
		`{first_of: [{device: {header: h}}, {device: {certificate: {}}}]}`:    "two actions of first_of have the key device",
	} {
		doc := parser.Parse([]byte("[" + yaml + "]"))
		action.Read(doc.Root(), action.Paths{}, outside{})
		found := false
		for _, f := range doc.Faults() {
			found = found || strings.Contains(f.Problem, want)
			if strings.Contains(f.Problem+f.Hint, "pw") || strings.Contains(f.Problem, string(secret)) {
				t.Errorf("%s: a secret is shown: %+v", yaml, f)
			}
		}
		if !found {
			t.Errorf("%s: %+v, want %s", yaml, doc.Faults(), want)
		}
	}
}

// Verifiers returns the verifiers of actions at every nesting depth, each with the terms of its
// action.
func TestVerifiers(t *testing.T) {
	list := deviceAction(t, `{bearer_claim: {keys: "https://a/k", issuer: i, audience: u}}, {first_of: [{bearer_claim: {keys: "http://b/k", allow_http: true}}, {path: {}}]}, {method: {}}`)
	want := []action.Verifier{
		verifier{"https://a/k", action.TokenTerms{Issuer: "i", Audience: "u"}},
		verifier{"http://b/k", action.TokenTerms{PlainHTTP: true}},
	}
	if got := list.Verifiers(nil); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
