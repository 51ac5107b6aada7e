package redis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/store/redis"
)

// attempt takes one unit of a key.
func attempt(ctx context.Context, s stint.Store, key stint.Key) (stint.Decision, error) {
	call := stint.Call{Takes: []stint.Take{{Key: key, Limit: forms[0], Cost: 1}}}
	if err := s.Decide(ctx, &call); err != nil {
		return stint.Decision{}, err
	}
	return call.Results[0], nil
}

// Each error of the server becomes an error with a hint, and nothing is charged.
func TestErrorsOfTheServer(t *testing.T) {
	for _, test := range []struct {
		name    string
		args    []string
		prepare [][]string
		problem string
		repair  []string
	}{
		{"a replica", nil, [][]string{{"REPLICAOF", "127.0.0.1", "1"}}, "READONLY", []string{"REPLICAOF", "NO", "ONE"}},
		{
			"full memory", nil,
			[][]string{{"CONFIG", "SET", "maxmemory-policy", "noeviction"}, {"CONFIG", "SET", "maxmemory", "1"}},
			"OOM",
			[]string{"CONFIG", "SET", "maxmemory", "0"},
		},
		{
			"no replicas", nil,
			[][]string{{"CONFIG", "SET", "min-replicas-to-write", "2"}},
			"NOREPLICAS",
			[]string{"CONFIG", "SET", "min-replicas-to-write", "0"},
		},
		{"no right to read lists", nil, [][]string{{"ACL", "SETUSER", "default", "-set", "-setrange", "-llen", "-lrange", "-lindex"}}, "NOPERM", []string{"ACL", "SETUSER", "default", "+@all"}},
		{"no right to write", nil, [][]string{{"ACL", "SETUSER", "default", "-set", "-setrange"}}, "NOPERM", []string{"ACL", "SETUSER", "default", "+set", "+setrange"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := testkit.StartRedis(t, test.args...)
			s := openIn(t, server, "fail")
			take(t, s, "a", forms[0], 1)
			take(t, s, "log", forms[7], 100)
			for _, command := range test.prepare {
				if answer := server.Do(command...); answer != "OK" {
					t.Fatalf("%q: %s", command, answer)
				}
			}
			for _, takes := range [][]stint.Take{
				{{Key: "a", Limit: forms[0], Cost: 1}},
				{{Key: "a", Limit: forms[0], Cost: 1}, {Key: "b", Limit: forms[0], Cost: 1}},
				{{Key: "a", Limit: forms[0], Cost: 1}, {Key: "a", Limit: forms[4], Cost: 1}},
				{{Key: "a", Limit: forms[0], Cost: 1, Independent: true}, {Key: "b", Limit: forms[0], Cost: 1}},
			} {
				err := s.Decide(t.Context(), &stint.Call{Takes: takes})
				var problem *redis.Error
				if !errors.As(err, &problem) || !strings.Contains(err.Error(), "decide: "+test.problem+" ") || errors.Is(err, stint.ErrUnknown) {
					t.Fatalf("%v, want %s and charged nothing", err, test.problem)
				}
				if problem.Hint == "" {
					t.Errorf("%v: no hint", err)
				}
			}
			if err := s.Ping(t.Context()); err != nil {
				t.Errorf("a server that is there: %v", err)
			}
			if err := s.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("a server that cannot decide: %v", err)
			}
			server.Do(test.repair...)
			if err := s.Probe(t.Context()); err != nil {
				t.Errorf("a server that can decide again: %v", err)
			}
			if d := take(t, s, "a", forms[0], 0); d.Remaining < 99 {
				t.Errorf("charged by a call that failed: %+v", d)
			}
			if d := take(t, s, "a", forms[4], 0); d.Remaining != 100 {
				t.Errorf("charged by a call that failed: %+v", d)
			}
			take(t, s, "a", forms[0], 1)
		})
	}
}

// If the server refuses the second of two writes, the first is charged, and the error is
// ErrUnknown.
func TestRefusedInTheMiddle(t *testing.T) {
	for _, second := range []*stint.Limit{forms[0], forms[4]} { // few.lua, then quick.lua
		server := testkit.StartRedis(t)
		s := openIn(t, server, "half")
		s.KeepTTLsForTest()
		halves := 0
		for i := range 5 {
			key := stint.Key(fmt.Sprint("a", i))
			name := "half:token_bucket:" + string(key)
			take(t, s, key, forms[0], uint32(1+2*i)) // so that not all states end at the end of a block
			before := server.Do("GET", name)
			server.Do("ACL", "SETUSER", "default", "-set") // writing in place stays allowed
			err := s.Decide(t.Context(), &stint.Call{Takes: []stint.Take{{Key: key, Limit: forms[0], Cost: 1}, {Key: "b", Limit: second, Cost: 1}}})
			server.Do("ACL", "SETUSER", "default", "+set")
			charged := server.Do("GET", name) != before
			if charged {
				halves++
			}
			if err == nil || charged != errors.Is(err, stint.ErrUnknown) {
				t.Errorf("%v: %v, and the first key is charged: %t", second.Algorithm(), err, charged)
			}
		}
		if halves == 0 {
			t.Errorf("%v: no call was decided by half", second.Algorithm())
		}
	}
}

// The store sends its scripts again after the server lost them.
func TestScriptsAreForgotten(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "forget")
	for i := range 5 {
		if d := takeAt(t, s, noon, "a", forms[4], 1); d.Remaining != int64(99-i) {
			t.Fatalf("%+v", d)
		}
		server.Do("SCRIPT", "FLUSH")
	}
}

// A call to a frozen server fails at its deadline. It is unknown whether the first one sent was
// charged. When the server runs again the store works too.
func TestFrozenServer(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "ice")
	take(t, s, "a", forms[0], 1)
	server.Freeze()
	unknown := false
	for i := 0; i < 5 || i < 100 && !unknown; i++ { // a busy machine may send nothing within a deadline
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		begin := time.Now()
		_, err := attempt(ctx, s, "a")
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		unknown = unknown || errors.Is(err, stint.ErrUnknown)
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("a deadline of 10ms took %v", took)
		} else {
			t.Log(took)
		}
	}
	if !unknown {
		t.Error("no call returned ErrUnknown")
	}
	server.Thaw()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := attempt(ctx, s, "a"); err != nil {
		t.Error(err)
	}
}

// untilDecided calls the store until there is an answer; t's deadline ends it.
func untilDecided(t *testing.T, s stint.Store) stint.Decision {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		d, err := attempt(ctx, s, "a")
		cancel()
		if err == nil {
			return d
		}
	}
	t.Fatal("no decision within 30 seconds")
	return stint.Decision{}
}

// The error about a server that is down contains its address. When it starts, and when it starts
// again, the store reaches it.
func TestServerComesAndGoes(t *testing.T) {
	server := testkit.StartRedis(t)
	server.Stop()
	s := openIn(t, server, "gone")
	for range 2 {
		_, err := attempt(t.Context(), s, "a")
		var problem *redis.Error
		if !errors.As(err, &problem) || !strings.Contains(err.Error(), server.Addr) || problem.Hint == "" || errors.Is(err, stint.ErrUnknown) {
			t.Errorf("no server: %v", err)
		}
	}
	if err := s.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), server.Addr) {
		t.Errorf("ping without a server: %v", err)
	}
	for range 2 {
		server.Restart()
		if d := untilDecided(t, s); d.Remaining != 99 {
			t.Errorf("a new server: %+v", d)
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	}
	s.Close()
	if _, err := attempt(t.Context(), s, "a"); err == nil {
		t.Error("decided after Close")
	}
	s.Close()
}

// The password comes from the URL, or from a file that is read for each connection.
func TestPasswords(t *testing.T) {
	server := testkit.StartRedis(t, "--requirepass", "p/w")
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("wrong\n")
	for url, good := range map[string]bool{
		"redis://:p%2Fw@" + server.Addr:                               true,
		"redis://default:p%2Fw@" + server.Addr:                        true,
		"redis://default:nope@" + server.Addr:                         false,
		"redis://" + server.Addr:                                      false,
		"redis://default@" + server.Addr + "/0?password_file=" + file: false,
		"redis://" + server.Addr + "?password_file=/nonexistent":      false,
		"redis://" + server.Addr + "?password_command=echo+p/w":       true,
		"redis://" + server.Addr + "?password_command=echo+nope":      false,
		"redis://" + server.Addr + "?password_command=exit+3":         false,
	} {
		s, err := redis.Open(url, redis.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		_, err = attempt(t.Context(), s, "a")
		if (err == nil) != good || errors.Is(err, stint.ErrUnknown) || err != nil && strings.Contains(err.Error(), "nope") {
			t.Errorf("%s: %v", url, err)
		}
		if problem, ok := errors.AsType[*redis.Error](err); !good && (!ok || problem.Hint == "" || strings.Contains(problem.Problem, "redis: ")) {
			t.Errorf("%s: %v without a hint", url, err)
		}
	}
	s, err := redis.Open("redis://default@"+server.Addr+"?password_file="+file, redis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := attempt(t.Context(), s, "a"); err == nil {
		t.Error("let in with a wrong password")
	}
	write("p/w\nwhat follows does not count")
	untilDecided(t, s)
}

func TestDatabases(t *testing.T) {
	server := testkit.StartRedis(t)
	for _, database := range []string{"", "/0", "/3"} {
		s, err := redis.Open(server.URL()+database, redis.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		want := int64(99)
		if database == "/0" {
			want = 98
		}
		if d := takeAt(t, s, noon, "a", forms[0], 1); d.Remaining != want {
			t.Errorf("database %q: %+v", database, d)
		}
	}
}

func TestBadURLs(t *testing.T) {
	for _, test := range []struct{ url, problem string }{
		{"", "unknown kind"},
		{"redis://", "without a host"},
		{"http://localhost", "unknown kind"},
		{"redis+ring://localhost", "unknown kind"},
		{"redis://a,b", "several servers"},
		{"redis://localhost/x", "not the number"},
		{"redis://localhost/-1", "not the number"},
		{"redis+cluster://a,b/2", "database 0 only"},
		{"redis+cluster://a,b?partitions=0", "partitions=0"},
		{"redis+cluster://a,b?partitions=5000", "partitions=5000"},
		{"redis://a?partitions=5", "unknown parameter"},
		{"redis+sentinel://a,b", "name of the primary"},
		{"redis+sentinel://a,,b?master=m", "without a host"},
		{"redis://localhost?timeout=1s", "unknown parameter"},
		{"redis://localhost?master=m", "unknown parameter"},
		{"redis://localhost?password_file=a&password_command=b", "both password_file"},
		{"redis://localhost?ca=/etc/passwd", "without encryption"},
		{"rediss://localhost?ca=/nonexistent", "cannot be read"},
		{"rediss://localhost?ca=/etc/passwd", "no certificate"},
		{"redis://:p%ss@localhost", "cannot be read"},
		{"redis://localhost?a;b", "cannot be read"},
	} {
		_, err := redis.Open(test.url, redis.Options{})
		var problem *redis.ConfigError
		if !errors.As(err, &problem) || !strings.Contains(err.Error(), test.problem) || problem.Hint == "" {
			t.Errorf("%q: %v, want %q and a hint", test.url, err, test.problem)
		}
	}
	for _, name := range []string{"a:b", "a b", "ä", "a{b}", strings.Repeat("a", 65), "a\n"} {
		_, err := redis.Open("redis://localhost", redis.Options{Namespace: name})
		var problem *redis.ConfigError
		if !errors.As(err, &problem) || !strings.Contains(err.Error(), "namespace") || problem.Hint == "" {
			t.Errorf("namespace %q: %v", name, err)
		}
	}
}

// If the user may write some states and not others, a call is half done: the error is ErrUnknown.
func TestRightToWriteSomeStates(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "some")
	server.Do("ACL", "SETUSER", "default", "-rpush")
	err := s.Decide(t.Context(), &stint.Call{Takes: []stint.Take{{Key: "a", Limit: forms[0], Cost: 1}, {Key: "a", Limit: forms[7], Cost: 1}}})
	if !errors.Is(err, stint.ErrUnknown) {
		t.Errorf("%v", err)
	}
}
