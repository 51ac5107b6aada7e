package action

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"
)

var (
	oneSecret, otherSecret = bytes.Repeat([]byte("1"), 32), bytes.Repeat([]byte("2"), 40)
	zero                   = time.Unix(1_800_000_000, 0)
)

const (
	name = "stint_device"
	year = 365 * 24 * time.Hour
)

// A device is identified by a cookie that we signed, until the cookie expires, and by no other
// cookie.
func TestRead(t *testing.T) {
	s := NewDeviceSigner(name, [][]byte{oneSecret}, year)
	good := s.Issue(zero)
	id, renewed, ok := s.Read(good, zero)
	if !ok || len(id) != 22 || renewed != "" {
		t.Fatalf("%q, %q, %v", id, renewed, ok)
	}
	if other, _, _ := s.Read(s.Issue(zero), zero); other == id {
		t.Error("two devices have one id")
	}
	changed := func(at int) string {
		b, _ := base64.RawURLEncoding.DecodeString(good)
		b[at] ^= 1
		return base64.RawURLEncoding.EncodeToString(b)
	}
	for what, tt := range map[string]struct {
		cookie string
		after  time.Duration
		good   bool
	}{
		"it":                    {good, 0, true},
		"almost too old":        {good, year - time.Second, true},
		"too old":               {good, year, false},
		"from a faster clock":   {good, -time.Hour, true},
		"another secret":        {NewDeviceSigner(name, [][]byte{otherSecret}, year).Issue(zero), 0, false},
		"another name":          {NewDeviceSigner("other", [][]byte{oneSecret}, year).Issue(zero), 0, false},
		"another version":       {changed(0), 0, false},
		"another id":            {changed(1), 0, false},
		"another time":          {changed(1 + idSize), 0, false},
		"another signature":     {changed(size - 1), 0, false},
		"none":                  {"", 0, false},
		"an unsigned value":     {id, 0, false},
		"text of the same size": {strings.Repeat("*", deviceIDLength), 0, false},
		"zeros":                 {strings.Repeat("A", deviceIDLength), 0, false},
		"8 KiB":                 {strings.Repeat("A", 8<<10), 0, false},
		"more than it":          {good + "A", 0, false},
		"line ends":             {strings.Repeat("\n", deviceIDLength), 0, false},
	} {
		got, _, ok := s.Read(tt.cookie, zero.Add(tt.after))
		if ok != tt.good || ok && got != id {
			t.Errorf("%s: %q, %v", what, got, ok)
		}
	}
}

// Secrets can be replaced without changing the ID of a device that returns in between, and a device
// that keeps returning never gets a new ID.
func TestRenewal(t *testing.T) {
	before, now := NewDeviceSigner(name, [][]byte{oneSecret}, year), NewDeviceSigner(name, [][]byte{otherSecret, oneSecret}, year)
	after := NewDeviceSigner(name, [][]byte{otherSecret}, year)
	cookie := before.Issue(zero)
	id, renewed, _ := now.Read(cookie, zero)
	if again, stays, ok := after.Read(renewed, zero); !ok || again != id || stays != "" {
		t.Errorf("the device is %q, %v, want %q", again, ok, id)
	}
	if _, _, ok := after.Read(cookie, zero); ok {
		t.Error("a secret that is gone is believed")
	}
	cookie = renewed
	for month := range 36 {
		got, renewed, ok := after.Read(cookie, zero.AddDate(0, month, 0))
		if !ok || got != id {
			t.Fatalf("month %d: %q, %v", month, got, ok)
		}
		if renewed != "" {
			cookie = renewed
		}
	}
}

func TestParseSecrets(t *testing.T) {
	line := strings.Repeat("s", minSecret)
	for file, want := range map[string]string{
		line: "1",
		"# since May\r\n" + line + "\r\n\n" + line: "2",
		"":                            "no secret",
		"# " + line:                   "no secret",
		line + "\nshort-secret":       "line 2 has 12 bytes, but a secret needs at least 32",
		strings.Repeat(line+"\n", 11): "more than 10 secrets",
	} {
		secrets, err := ParseDeviceSecrets([]byte(file))
		got := fmt.Sprint(len(secrets))
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.20q: %s, want %s", file, got, want)
		}
		for _, s := range secrets {
			if string(s) != line {
				t.Errorf("%.20q: secret %q", file, s)
			}
		}
	}
}

func BenchmarkRead(b *testing.B) {
	s := NewDeviceSigner(name, [][]byte{oneSecret, otherSecret}, year)
	cookie := s.Issue(zero)
	for b.Loop() {
		if _, _, ok := s.Read(cookie, zero); !ok {
			b.Fatal()
		}
	}
}

// No cookie makes Read panic, and Read accepts no cookie that we did not sign.
func FuzzRead(f *testing.F) {
	f.Add(NewDeviceSigner(name, [][]byte{oneSecret}, year).Issue(zero))
	f.Add(strings.Repeat("A", deviceIDLength))
	s := NewDeviceSigner(name, [][]byte{otherSecret}, year)
	f.Fuzz(func(t *testing.T, cookie string) {
		if id, _, ok := s.Read(cookie, zero); ok {
			t.Errorf("%q is device %s", cookie, id)
		}
	})
}
