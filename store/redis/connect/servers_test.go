package connect_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"stint/store/redis/connect"
)

func TestServers(t *testing.T) {
	type servers = []connect.Server
	for _, test := range []struct {
		url  string
		want servers
	}{
		{"redis://a", servers{{"a:6379", "redis://a"}}},
		{"redis://u:p@A:1/2", servers{{"a:1", "redis://u:p@A:1/2"}}},
		{"redis://a,b:1,[::1]:2,[::2]", servers{
			{"a:6379", "redis://a"},
			{"b:1", "redis://b:1"},
			{"[::1]:2", "redis://[::1]:2"},
			{"[::2]:6379", "redis://[::2]"},
		}},
		{"rediss://u:p,q@a:1, b/3?password_file=x,y", servers{
			{"a:1", "rediss://u:p,q@a:1/3?password_file=x,y"},
			{"b:6379", "rediss://u:p,q@b/3?password_file=x,y"},
		}},
		{"valkey://a?password_file=x,y", servers{{"a:6379", "valkey://a?password_file=x,y"}}},
		{"redis+unix:///run/redis.sock?db=2", servers{{"redis+unix:///run/redis.sock", "redis+unix:///run/redis.sock?db=2"}}},
		{"redis+cluster://a:1,b:2", servers{{"redis+cluster://a:1,b:2", "redis+cluster://a:1,b:2"}}},
		{"redis+sentinel://:p@a:1,b:2?master=m", servers{{"redis+sentinel://:xxxxx@a:1,b:2", "redis+sentinel://:p@a:1,b:2?master=m"}}},
	} {
		if got, err := connect.Servers(test.url); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, %v", test.url, got, err)
		}
	}
	for url, want := range map[string]string{
		"redis://a,b,A:6379":              "named twice",
		"redis://a,,b":                    "without a host",
		"redis://:secret@a,b:x":           "cannot be read",
		"redis://:secret@a,b/nine":        "number of a database",
		"redis://:secret@a,b:65536":       "is not a port",
		"redis://a:0":                     "is not a port",
		"redis+sentinel://a,b:0?master=m": "is not a port",
		"redis://:secret@a:1#b":           "a # in the URL",
		"http://a,b":                      "unknown kind",
		"rediss+unix:///a":                "unknown kind",
		"redis+unix://a":                  "a socket without its path",
		"redis+unix:///a?db=x":            "number of a database",
		"redis://a?verify=chain":          "certificates without encryption",
		"rediss://a?verify=no":            "verify=no",
		"rediss://a?cert=x":               "a certificate without its key",
		"rediss://a?cert=x&key=x":         "cannot be used",
	} {
		_, err := connect.Servers(url)
		problem, ok := errors.AsType[*connect.URLError](err)
		if !ok || problem.Hint == "" || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestForm(t *testing.T) {
	for url, want := range map[string]string{
		"redis://a,b": "", "rediss://a": "", "redis+unix:///a": "unix", "valkeys+cluster://a,b": "cluster",
		"redis+Sentinel://a?master=m": "sentinel", "memory": "",
	} {
		if got := connect.FormOfURL(url); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}
