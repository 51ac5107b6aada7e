package apikey

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// samples were computed by another program, in Python.
var samples = []struct{ prefix, number, text, hash string }{
	{"acme_live", "0", "acme_live_00000000000000000000001Wk7Ym", "47941606b473916a9630eb3bc3330e94d9930e8ce8f76a482d0c9590c16be206"},
	{"a", "ffffffffffffffffffffffffffffffff", "a_7n42DGM5Tflk9n8mt7Fhc71nW8cH", "008e07bf16272d45073891a87a4457282a6ddcc79ef8802e19d41d6925701b77"},
	{"acme_live", "102030405060708090a0b0c0d0e0f", "acme_live_000SYW7RiJxkEgOGusQGwp32ADLa", "7c4117bca890da0e53ba4f7a82cc975cad75981d50288947d39ba420fe647ab6"},
	{"stint20chars_is_most", "3c4f1e9a77d2b08855aa01fe6b9c2d10", "stint20chars_is_most_1pnhEcWqEWytkS6y8hfNYG08IOo9", "5cfbb79df6f7a38c26de61bebee1b902bc95c4e8aae7b24afe599f773e4aa356"},
}

func TestSamples(t *testing.T) {
	for _, s := range samples {
		n, _ := new(big.Int).SetString(s.number, 16)
		var random [16]byte
		n.FillBytes(random[:])
		if got := compose(s.prefix, random); got != s.text {
			t.Errorf("compose(%s, %s) = %s, want %s", s.prefix, s.number, got, s.text)
		}
		k, err := Parse(s.text)
		if err != nil || k.Hash().String() != s.hash || k.Prefix() != s.prefix || k.LastFour() != s.text[len(s.text)-4:] {
			t.Errorf("Parse(%s) = %v, %s, %v", s.text, k, k.Hash(), err)
		}
	}
}

// New keys differ, and Parse reads what New made.
func TestNew(t *testing.T) {
	seen := map[Key]bool{}
	for range 1000 {
		s, err := New("acme_live")
		if err != nil {
			t.Fatal(err)
		}
		k, err := Parse(s.Reveal())
		if err != nil || k != s.Key() || seen[k] {
			t.Fatalf("Parse of a new key: %v, %v; seen before: %v", k, err, seen[k])
		}
		seen[k] = true
	}
}

func TestPrefixes(t *testing.T) {
	for prefix, want := range map[string]error{
		"a": nil, "Stint": nil, "sk_live_2": nil, strings.Repeat("x", MaxPrefix): nil,
		"": ErrPrefix, "_a": ErrPrefix, "a_": ErrPrefix, "2a": ErrPrefix, "a-b": ErrPrefix, "ä": ErrPrefix, "a b": ErrPrefix,
		strings.Repeat("x", MaxPrefix+1): ErrPrefix,
	} {
		s, err := New(prefix)
		if !errors.Is(err, want) || (err == nil) == (s.Reveal() == "") {
			t.Errorf("New(%q): error %v, want %v", prefix, err, want)
		}
	}
}

func TestNotKeys(t *testing.T) {
	good := samples[2].text
	for _, tt := range []struct {
		text string
		want error
	}{
		{"", ErrFormat},
		{"password", ErrFormat},
		{good[:len(good)-1], ErrFormat},
		{good[1:], ErrCheck},
		{good + "0", ErrFormat},
		{" " + good, ErrFormat},
		{strings.Replace(good, "_000", "-000", 1), ErrFormat},
		{strings.Replace(good, "000S", "0 0S", 1), ErrFormat},
		{strings.Replace(good, "acme", "\x00cme", 1), ErrFormat},
		{strings.Replace(good, "acme", "acne", 1), ErrCheck},
		{strings.Replace(good, "acme", "ACME", 1), ErrCheck},
		{strings.ToUpper(good), ErrCheck},
		{good[:len(good)-1] + "-", ErrCheck},
		{"a_7n42DGM5Tflk9n8mt7Fhc8" + string(checkOf("a_7n42DGM5Tflk9n8mt7Fhc8")), ErrFormat}, // 2^128
		{strings.Repeat("x", 1<<20), ErrFormat},
	} {
		if k, err := Parse(tt.text); !errors.Is(err, tt.want) || k != (Key{}) {
			t.Errorf("Parse(%.60q) = %v, %v, want %v", tt.text, k, err, tt.want)
		}
	}
}

func checkOf(text string) []byte {
	check := checkPart(text)
	return check[:]
}

// No key passes with one wrong character or with two swapped neighbours.
func TestMistyped(t *testing.T) {
	for _, s := range samples {
		for i := range len(s.text) {
			for _, c := range []byte(digits + "_") {
				wrong := s.text[:i] + string(c) + s.text[i+1:]
				if _, err := Parse(wrong); err == nil && wrong != s.text {
					t.Errorf("%s passes instead of %s", wrong, s.text)
				}
			}
			if i == 0 {
				continue
			}
			swapped := s.text[:i-1] + s.text[i:i+1] + s.text[i-1:i] + s.text[i+1:]
			if _, err := Parse(swapped); err == nil && swapped != s.text {
				t.Errorf("%s passes instead of %s", swapped, s.text)
			}
		}
	}
}

// Invented keys fail on their check part.
func TestInvented(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := []byte("acme_live_0")
	start := len(text)
	text = append(text, make([]byte, randomLen-1+checkLen)...)
	for range 200_000 {
		for i := start; i < len(text); i++ {
			text[i] = digits[random.IntN(len(digits))]
		}
		if _, err := Parse(string(text)); !errors.Is(err, ErrCheck) {
			t.Fatalf("Parse(%s): %v", text, err)
		}
	}
}

// No way to print, log or encode a secret shows its text, and neither does an error.
func TestHidden(t *testing.T) {
	s, err := New("acme_live")
	if err != nil {
		t.Fatal(err)
	}
	type record struct {
		Open   Secret
		hidden Secret
		Deep   map[string]*Secret
	}
	r := record{s, s, map[string]*Secret{"x": &s}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%10.3s"} {
		for _, value := range []any{s, &s, []Secret{s}, r, &r, r.hidden, s.Key(), s.Key().Hash()} {
			fmt.Fprintf(&out, verb+"\n", value)
		}
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("made", "key", s, "pointer", &s, "record", r, "known", s.Key())
	}
	for _, value := range []any{s, r} {
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(data)
	}
	for _, wrong := range []string{s.Reveal() + "0", s.Reveal()[1:], "x" + s.Reveal(), s.Reveal()[:30]} {
		_, err := Parse(wrong)
		fmt.Fprintln(&out, err)
		_, err = New(wrong)
		fmt.Fprintln(&out, err, new(Hash).UnmarshalText([]byte(wrong)))
	}
	number := s.Reveal()[len("acme_live_"):][:randomLen]
	for _, leak := range []string{number[:8], fmt.Sprintf("%x", number[:8]), fmt.Sprintf("%X", number[:8]), fmt.Sprint([]byte(number[:4]))[1:10]} {
		if strings.Contains(out.String(), leak) {
			t.Errorf("%q of the key is in the output:\n%s", leak, out.String())
		}
	}
	if want := "acme_live_..." + s.Reveal()[len(s.Reveal())-4:]; fmt.Sprint(s) != want || !strings.Contains(out.String(), `"known":"`+want) {
		t.Errorf("a secret prints as %v, want %s", s, want)
	}
	if fmt.Sprint(Secret{}, Key{}) != "no key no key" {
		t.Errorf("zero values print as %v, %v", Secret{}, Key{})
	}
}

func TestHashText(t *testing.T) {
	k, _ := Parse(samples[0].text)
	text, err := k.Hash().MarshalText()
	if err != nil || string(text) != samples[0].hash {
		t.Fatalf("MarshalText: %s, %v", text, err)
	}
	var h Hash
	if err := h.UnmarshalText(text); err != nil || !h.Equal(k.Hash()) {
		t.Errorf("UnmarshalText: %v, %v", h, err)
	}
	for _, bad := range []string{"", samples[0].hash[1:], samples[0].hash + "00", "g" + samples[0].hash[1:]} {
		if err := h.UnmarshalText([]byte(bad)); !errors.Is(err, errHash) || !h.Equal(k.Hash()) {
			t.Errorf("UnmarshalText(%s): %v, and the hash is %v", bad, err, h)
		}
	}
	h[31] ^= 1
	if h.Equal(k.Hash()) {
		t.Error("hashes that differ in one bit are equal")
	}
}

// A request costs no memory, whether its key is good, mistyped or no key at all.
func TestAllocations(t *testing.T) {
	good := samples[3].text
	known := map[Hash]bool{}
	for _, text := range []string{good, strings.Replace(good, "1p", "p1", 1), good[1:], strings.Repeat("x", 10_000), ""} {
		if n := testing.AllocsPerRun(100, func() {
			k, err := Parse(text)
			if err == nil && known[k.Hash()] {
				t.Error("nobody knows this key")
			}
		}); n != 0 {
			t.Errorf("Parse(%.60q) allocates %v times", text, n)
		}
	}
}

// Parse never panics. What it accepts is exactly what New can make.
func FuzzParse(f *testing.F) {
	for _, s := range samples {
		f.Add(s.text)
		f.Add(s.text[1:])
	}
	f.Add("__________________________________")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := Parse(text)
		if err != nil {
			if k != (Key{}) || strings.Contains(err.Error(), text) && len(text) > shownLen {
				t.Errorf("Parse(%q) = %v, %v", text, k, err)
			}
			return
		}
		n := new(big.Int)
		for _, c := range text[len(k.Prefix())+1:][:randomLen] {
			n.Add(n.Mul(n, big.NewInt(62)), big.NewInt(int64(strings.IndexRune(digits, c))))
		}
		if n.BitLen() > 128 {
			t.Fatalf("Parse(%q) accepts %d bits", text, n.BitLen())
		}
		var random [16]byte
		n.FillBytes(random[:])
		if compose(k.Prefix(), random) != text {
			t.Errorf("Parse(%q) accepts what compose writes as %q", text, compose(k.Prefix(), random))
		}
	})
}

func BenchmarkParse(b *testing.B) {
	good := samples[2].text
	for name, text := range map[string]string{"good": good, "invented": good[:len(good)-1] + "0", "other": "Bearer"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Parse(text) // only its time counts
			}
		})
	}
}
