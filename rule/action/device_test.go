package action_test

import (
	"crypto/x509"
	"net/http"
	"strings"
	"testing"
	"time"

	"stint/internal/strictyaml"
	"stint/rule/action"
)

var secret = []byte(strings.Repeat("s", 40))

// open gives every file's content as one secret.
func open(strictyaml.Value) ([]byte, bool) { return secret, true }

// device reads an action whose secret file holds one secret.
func deviceAction(t *testing.T, yaml string) *action.List {
	t.Helper()
	doc := strictyaml.Parse([]byte("[" + yaml + "]"))
	list := action.Read(doc.Root(), action.Paths{}, open)
	for _, f := range doc.Faults() {
		t.Fatalf("%s: %+v", yaml, f)
	}
	return list
}

// A device is known by a cookie that we have signed. Whoever has none gets one and
// is nobody until it comes back.
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
		cookies []string // lines of the header
		want    string   // the id; "" is none
		set     bool     // the answer has a cookie
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

// A device is what a trusted proxy calls it, or who owns a certificate.
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

// Whatever is wrong with a device is told.
func TestBadDevice(t *testing.T) {
	for yaml, want := range map[string]string{
		`{device: {}}`:                                      "a device is known in one way",
		`{device: }`:                                        "a device is known in one way",
		`{device: {header: h, certificate: {}}}`:            "a device is known in one way",
		`{device: {header: ""}}`:                            "an empty text",
		`{device: {cookie: {}}}`:                            "a device's cookie without secret_file",
		`{device: {cookie: {secret: s}}}`:                   `unknown word "secret"`,
		`{device: {cookie: {secret_file: short}}}`:          "secret_file: short: line 1 has 5 bytes, and a secret at least 32",
		`{device: {cookie: {secret_file: f, name: "a b"}}}`: `name: "a b" is no name of a cookie`,
		`{device: {cookie: {secret_file: f, name: __Host-d, secure: false}}}`:        "browsers drop __Host-d where secure is false",
		`{device: {cookie: {secret_file: f, max_age: 500d}}}`:                        "max_age: 500d",
		`{device: {cookie: {secret_file: f, max_age: 1s}}}`:                          "max_age: 1s",
		`{device: {cookie: {secret_file: f, max_age: 365}}}`:                         `max_age: "365" is a number without a unit`,
		`{device: {certificate: {part: common_name}}}`:                               `unknown word "part"`,
		`{first_of: [{device: {header: h}}, {device: {certificate: {}}}]}`:           "two actions of first_of have the key device",
		`{bearer_claim: {keys: "http://login.example.com/k"}}`:                       "keys: http://login.example.com/k: the keys would come in the clear",
		`{bearer_claim: {keys: "https://ann:pw@login.example.com/k"}}`:               "keys: https://login.example.com/k: it holds a user or a password",
		`{bearer_claim: {keys: "ftp://login.example.com/k", allow_http: true}}`:      "the keys would come in the clear",
		`{bearer_claim: {keys: "http://login.example.com/k", allow_http: maybe}}`:    "expected true or false",
		`{bearer_claim: {keys: set.json}}`:                                           "keys: set.json: no public key",
		`{first_of: [{bearer_claim: {keys: "https://"}}, {device: {header: h}}]}`:    "it has no host",
		`{bearer_claim: {keys: "https://login.example.com/%zz", issuer: i}}`:         "it cannot be read",
		`{bearer_claim: {keys: "https://login.example.com/k", skip_if_absent: "x"}}`: "expected true or false",
	} {
		doc := strictyaml.Parse([]byte("[" + yaml + "]"))
		action.Read(doc.Root(), action.Paths{}, func(v strictyaml.Value) ([]byte, bool) {
			if v.Text() == "short" {
				return []byte("short"), true
			}
			return secret, true
		})
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

// The addresses of key sets are found wherever an action stands.
func TestAddresses(t *testing.T) {
	list := read(t, `{bearer_claim: {keys: "https://a/k"}}, {first_of: [{bearer_claim: {keys: "https://b/k"}}, {path: {}}]}, {method: {}}`)
	var all []string
	for _, a := range list.Addresses(nil) {
		all = append(all, a.String())
	}
	if got := strings.Join(all, " "); got != "https://a/k https://b/k" {
		t.Error(got)
	}
}
