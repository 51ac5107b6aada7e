package recordlog

import (
	"os"
	"strings"
	"testing"

	"stint/internal/testkit"
	"stint/records/replication"
)

// documented reads the rights of a user for records from docs/redis-operation.md.
func documented(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/redis-operation.md")
	testkit.Must(t, err)
	_, text, found := strings.Cut(string(page), "\nACL SETUSER records ")
	text, _, ended := strings.Cut(text, "\n```")
	if !found || !ended || strings.Contains(text, "+@") || strings.Contains(text, "allcommands") {
		t.Fatalf("the page has no rights of a user for records: %q", text)
	}
	return strings.Fields(text)
}

// The rights that docs/redis-operation.md names suffice for the log, and allow nothing that harms others.
func TestRights(t *testing.T) {
	rights := documented(t)
	server := testkit.StartRedis(t)
	allow := func(rights ...string) string {
		server.Do("FLUSHALL")
		if answer := server.Do(append([]string{"ACL", "SETUSER", "records", "reset"}, rights...)...); answer != "OK" {
			t.Fatal(answer)
		}
		return strings.Replace(server.URL(), "://", "://records:PASSWORD@", 1)
	}
	walk(t, open(t, allow(rights...)))
	walk(t, open(t, allow(rights...)+"/3"))
	log := strings.Split(server.Do("ACL", "LOG"), "\n")
	for i, word := range log[:len(log)-1] {
		if what := log[i+1]; word == "object" && what != "client|setinfo" && what != "client" {
			t.Errorf("Redis refuses %s", what)
		}
	}
	allow(rights...)
	for _, words := range [][]string{{"FLUSHALL"}, {"KEYS", "*"}, {"CONFIG", "GET", "*"}, {"GET", "shop:other"}, {"SET", "other", "1"}} {
		if answer := server.As("records", "PASSWORD", words...); !strings.Contains(answer, "NOPERM") && !strings.Contains(answer, "no permissions") && !strings.Contains(answer, "can't access") {
			t.Errorf("%q: %s", words, answer)
		}
	}
}

// A user without one of the rights changes nothing: the entry is appended completely or not at all.
func TestMissingRight(t *testing.T) {
	rights := documented(t)
	server := testkit.StartRedis(t)
	for _, missing := range []string{"+hset", "+hdel", "+xadd", "+xtrim", "+xrange", "+xlen", "+hmget", "+exists", "+unlink"} {
		server.Do("FLUSHALL")
		rest := append([]string{"ACL", "SETUSER", "records", "reset"}, rights...)
		rest = append(rest, "-"+strings.TrimPrefix(missing, "+"))
		if answer := server.Do(rest...); answer != "OK" {
			t.Fatal(answer)
		}
		l := open(t, strings.Replace(server.URL(), "://", "://records:PASSWORD@", 1))
		full := open(t, server.URL())
		e := replication.Head{}.Next([]byte("data"))
		if _, err := l.Append(t.Context(), replication.Head{}, &e, nil, true); err == nil && missing != "+xrange" {
			t.Errorf("without %s: no error", missing)
		} else if err != nil && server.Do("EXISTS", "shop:{records}:log", "shop:{records}:state") != "0" {
			t.Errorf("without %s: %v, but something is left", missing, err)
		} else if err == nil {
			continue
		}
		if head, err := full.Append(t.Context(), replication.Head{}, &e, nil, false); err != nil || head != e.Head() {
			t.Errorf("with all rights after it: %v, %v", head, err)
		}
	}
}
