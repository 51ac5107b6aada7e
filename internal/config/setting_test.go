package config_test

import (
	"errors"
	"testing"
	"time"

	"stint/internal/config"
)

func TestSizes(t *testing.T) {
	for _, test := range []struct {
		text string
		want int64
		back string
	}{
		{"1048576", 1 << 20, "1MiB"},
		{"64 MiB", 64 << 20, "64MiB"},
		{"2GB", 2e9, "1953125KiB"},
		{"1TiB", 1 << 40, "1TiB"},
		{"1234567B", 1234567, "1234567"},
	} {
		var n int64
		s := config.Size(&n, config.Bounds{})
		if err := s.Set(test.text); err != nil || n != test.want || s.String() != test.back {
			t.Errorf("%s: %d (%s), error %v; want %d (%s)", test.text, n, s.String(), err, test.want, test.back)
		}
	}
}

func TestKinds(t *testing.T) {
	var (
		text, secret, file string
		list, files        []string
		on                 bool
		long               time.Duration
		bytes, count       int64
		part               float64
	)
	odd := func(s string) error {
		if s == "odd" {
			return config.Fault("odd", "write another")
		}
		return nil
	}
	values := map[string]config.Value{
		"text": config.Text(&text, odd), "secret": config.Secret(&secret), "path": config.Path(&file),
		"list": config.List(&list, odd), "paths": config.Paths(&files), "flag": config.Flag(&on),
		"duration": config.Duration(&long), "size": config.Size(&bytes, config.Bounds{Least: 10, Most: 1000, What: "a test"}),
		"number": config.Number(&count, 1, 9), "fraction": config.Fraction(&part),
	}
	for _, test := range []struct{ kind, given, shown, problem string }{
		{"text", "a", "a", ""},
		{"text", "odd", "", "odd"},
		{"secret", "a", "(hidden)", ""},
		{"secret", "", "", ""},
		{"path", "/a", "/a", ""},
		{"list", "a, b", "a,b", ""},
		{"list", "c", "a,b,c", ""},
		{"list", "odd", "", "odd"},
		{"paths", "a", "a", ""},
		{"flag", "true", "true", ""},
		{"flag", "maybe", "", `"maybe" is neither true nor false`},
		{"duration", "1.5s", "1.5s", ""},
		{"duration", "-1s", "", "-1s is negative"},
		{"duration", "1", "", `"1" is not a time`},
		{"size", "5", "", "5 bytes is too little for a test"},
		{"size", "1GB", "", "1000000000 bytes is too much for a test"},
		{"size", "x", "", `"x" is not a size`},
		{"number", "10", "", "10 is out of bounds"},
		{"number", "x", "", `"x" is not a whole number`},
		{"number", "9", "9", ""},
		{"fraction", "0.5", "0.5", ""},
		{"fraction", "2", "", "2 is no part of a whole"},
		{"fraction", "x", "", `"x" is not a number`},
	} {
		v := values[test.kind]
		err := v.Set(test.given)
		switch {
		case test.problem == "" && (err != nil || v.String() != test.shown || v.Check() != nil):
			t.Errorf("%s %q: shown as %q, error %v", test.kind, test.given, v.String(), err)
		case test.problem != "" && (err == nil || err.Error() != test.problem || config.HintOf(err) == ""):
			t.Errorf("%s %q: error %v, hint %q", test.kind, test.given, err, config.HintOf(err))
		}
	}
	config.Empty(values["list"])
	config.Empty(values["text"])
	if len(list) != 0 || text == "" {
		t.Error("only lists are emptied")
	}
	for kind, v := range values {
		_, path := config.PathIn(v, "x")
		if want := kind == "path" || kind == "paths"; (path == "x") != want {
			t.Errorf("%s holds paths: %v", kind, !want)
		}
	}
	if config.HintOf(errors.New("plain")) != "" {
		t.Error("a hint from nowhere")
	}
}
