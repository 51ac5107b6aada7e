package redis_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"stint"
	"stint/internal/testkit"
	"stint/store/redis"
)

// user is the user that docs/redis-operation.md describes for a service.
type user struct {
	rights   []string // arguments of ACL SETUSER NAME, for the namespace shop
	cluster  []string // further ones on a Cluster
	sentinel []string // further ones with Sentinels
	watcher  []string // those of a user of the Sentinels
}

// documented reads the user from that page.
func documented(t testing.TB) (u user) {
	t.Helper()
	page, err := os.ReadFile("../../docs/redis-operation.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "## The user\n")
	text, _, ended := strings.Cut(text, "\n## ")
	var all [][]string
	for i, block := range strings.Split(text, "```") {
		if i%2 == 1 {
			for line := range strings.SplitSeq(strings.TrimSpace(block), "\nACL ") {
				all = append(all, strings.Fields(strings.TrimPrefix(line, "ACL ")))
			}
		}
	}
	if !found || !ended || len(all) != 4 {
		t.Fatalf("docs/redis-operation.md names %d users: %q", len(all), all)
	}
	for _, words := range all {
		if words[0] != "SETUSER" || slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "+@") || w == "allcommands" }) {
			t.Fatalf("%q allows a category of commands", words)
		}
	}
	return user{all[0][2:], all[1][2:], all[2][2:], all[3][2:]}
}

// makeOn makes the user for a namespace on servers, and returns its name.
func makeOn(t testing.TB, rights []string, namespace string, servers ...*testkit.RedisServer) (name string) {
	t.Helper()
	allow(t, "of-"+namespace, rights, namespace, servers...)
	return "of-" + namespace
}

// allow gives a user the rights for a namespace on servers, and no others.
func allow(t testing.TB, name string, rights []string, namespace string, servers ...*testkit.RedisServer) {
	t.Helper()
	command := []string{"ACL", "SETUSER", name}
	for _, right := range rights {
		command = append(command, strings.ReplaceAll(right, "shop:", namespace+":"))
	}
	for _, server := range servers {
		if answer := server.Do(command...); answer != "OK" {
			t.Fatalf("%s: %s", strings.Join(command, " "), answer)
		}
	}
}

// renewedAs returns a function that returns empty stores, see renewed. Each is of a user who has
// these rights on all servers, for the store's namespace only.
func renewedAs(t testing.TB, url string, rights []string, servers ...*testkit.RedisServer) func(testing.TB) stint.Store {
	var users sync.Map // name by store
	next := renewed(func() *redis.Store {
		s, name := openAs(t, url, rights, servers...)
		users.Store(s, name)
		return s
	})
	return func(t testing.TB) stint.Store {
		s, namespace := next(t)
		name, _ := users.Load(s)
		allow(t, name.(string), rights, namespace, servers...)
		return s
	}
}

// openAs opens an empty store as a user with these rights on all servers, and returns the user's
// name too.
func openAs(t testing.TB, url string, rights []string, servers ...*testkit.RedisServer) (s *redis.Store, name string) {
	t.Helper()
	namespace := fmt.Sprint("rights", stores.Add(1))
	name = makeOn(t, rights, namespace, servers...)
	s, err := redis.Open(strings.Replace(url, "://", "://"+name+":PASSWORD@", 1), redis.Options{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, name
}

// forbidden are commands that would harm others, or all keys of the user itself.
var forbidden = [][]string{
	{"FLUSHALL"},
	{"FLUSHDB"},
	{"KEYS", "*"},
	{"SCAN", "0"},
	{"SCRIPT", "FLUSH"},
	{"CONFIG", "GET", "*"},
	{"CONFIG", "SET", "maxmemory", "1"},
	{"CLIENT", "KILL", "TYPE", "normal"},
	{"CLIENT", "LIST"},
	{"SHUTDOWN"},
	{"ACL", "LIST"},
	{"MONITOR"},
	{"REPLICAOF", "NO", "ONE"},
	{"EVAL", "return redis.call('FLUSHALL')", "0"},
	{"EVAL", "return redis.call('KEYS', '*')", "0"},
	{"GET", "elsewhere:key"},
	{"SET", "elsewhere:key", "1"},
	{"EVAL", "return redis.call('SET', KEYS[1], '1')", "1", "elsewhere:key"},
	{"PUBLISH", "elsewhere:news", ""},
}

// refuses checks that the server among these where somebody else has a key refuses a user what
// it does not need.
func refuses(t *testing.T, name string, servers ...*testkit.RedisServer) {
	t.Helper()
	i := slices.IndexFunc(servers, func(s *testkit.RedisServer) bool { return s.Do("SET", "elsewhere:key", "5") == "OK" })
	if i < 0 {
		t.Fatal("no server takes a key")
	}
	server := servers[i]
	for _, words := range forbidden {
		answer := server.As(name, "PASSWORD", words...)
		if !strings.Contains(answer, "NOPERM") && !strings.Contains(answer, "can't run this command") && !strings.Contains(answer, "no permissions") && !strings.Contains(answer, "can't access") {
			t.Errorf("%s as %s: %s", strings.Join(words, " "), name, answer)
		}
	}
	if value := server.Do("GET", "elsewhere:key"); value != "5" {
		t.Errorf("a key of somebody else is %q by now", value)
	}
}

// everything asks a store for what is no decision.
func everything(t *testing.T, s *redis.Store) {
	t.Helper()
	listen(t, s, "news")
	for _, limit := range forms {
		take(t, s, "a", limit, 1)
	}
	_, _, lending := s.Lending(t.Context(), &stint.Take{Key: "a", Limit: forms[0]}, 0)
	kept, first, secret := s.KeepSecret(t.Context(), "fingerprint")
	_, warnings := s.Warnings(t.Context())
	if err := errors.Join(s.Ping(t.Context()), s.Probe(t.Context()), lending, secret, warnings); err != nil || kept != "fingerprint" || !first {
		t.Error(err, kept, first)
	}
}

// sufficed checks that no server refused anything, but for what the client tells of itself.
func sufficed(t *testing.T, servers ...*testkit.RedisServer) {
	t.Helper()
	for _, server := range servers {
		log := strings.Split(server.Do("ACL", "LOG"), "\n")
		for i, word := range log[:len(log)-1] {
			if what := log[i+1]; word == "object" && what != "client|setinfo" && what != "client" {
				t.Errorf("%s refuses %s", server.Addr, what)
			}
		}
	}
}

// The rights that docs/redis-operation.md names suffice for all that the service asks of one server, a
// Cluster or Sentinels, and allow nothing that harms others. If some are missing the error says
// which. TestSuite and TestSuiteOnCluster run all decisions with these rights.
func TestRights(t *testing.T) {
	t.Parallel()
	u := documented(t)
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		server := testkit.StartRedis(t)
		third, _ := openAs(t, server.URL()+"/3", u.rights, server)
		everything(t, third)
		sufficed(t, server)
		refuses(t, makeOn(t, u.rights, "shop", server), server)

		s, _ := openAs(t, server.URL(), append(slices.Clone(u.rights), "resetchannels", "-publish", "-subscribe"), server)
		for _, err := range []error{s.Publish(t.Context(), "news", ""), s.Listen(t.Context(), []string{"news"}, nil)} {
			if problem, ok := errors.AsType[*redis.Error](err); !ok || !strings.Contains(problem.Hint, ":* +publish +subscribe") {
				t.Errorf("%v, want a hint", err)
			}
		}
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel() // mostly servers that find each other
		cluster := testkit.StartRedisCluster(t, 3)
		cluster.Timeout(testkit.Steady)
		rights := slices.Concat(u.rights, u.cluster)
		all, _ := openAs(t, cluster.URL(), rights, cluster.Nodes...)
		everything(t, all)
		sufficed(t, cluster.Nodes...)
		refuses(t, makeOn(t, rights, "shop", cluster.Nodes...), cluster.Nodes...)
	})
	t.Run("sentinels", func(t *testing.T) {
		t.Parallel() // mostly servers that find each other
		sentinels := testkit.StartSentinels(t, 1)
		sentinels.Timeout(testkit.Steady)
		watcher := makeOn(t, u.watcher, "watcher", sentinels.Sentinels...)
		url := sentinels.URL() + "&sentinel_user=" + watcher + "&sentinel_password=PASSWORD"
		s, _ := openAs(t, url, slices.Concat(u.rights, u.sentinel), sentinels.Servers...)
		everything(t, s)
		sufficed(t, append(sentinels.Servers, sentinels.Sentinels...)...)
		for _, words := range [][]string{{"SENTINEL", "REMOVE", "stint"}, {"SENTINEL", "FAILOVER", "stint"}, {"SHUTDOWN"}} {
			if answer := sentinels.Sentinels[0].As(watcher, "PASSWORD", words...); !strings.Contains(answer, "permissions") {
				t.Errorf("%q: %s", words, answer)
			}
		}
	})
}
