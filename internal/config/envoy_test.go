package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The table has the 114 variables that envoyproxy/ratelimit reads itself, and one that a library of
// it reads.
func TestNames(t *testing.T) {
	if n := len(EnvoyVariables()); n != 114+1 {
		t.Errorf("%d variables", n)
	}
	seen := map[string]bool{}
	for _, v := range EnvoyVariables() {
		if seen[v.Name] {
			t.Errorf("%s stands there twice", v.Name)
		}
		seen[v.Name] = true
		if v.Note == "" {
			t.Errorf("%s: nothing is said about it", v.Name)
		}
		if v.Use != Used && v.Setting != "" {
			t.Errorf("%s is %v and has a setting", v.Name, v.Use)
		}
		if problem, _ := v.kind.check(v.Default); v.Default != "" && problem != "" {
			t.Errorf("%s: the default is refused: %s", v.Name, problem)
		}
	}
}

// settings returns the values of some settings from an environment.
func settings(t *testing.T, options EnvoyOptions, environ ...string) map[string]string {
	t.Helper()
	r := ReadEnvoy(environ, options)
	for _, f := range r.Faults {
		t.Errorf("%v: %v; hint: %s", environ, f, f.Hint)
	}
	values := map[string]string{}
	for _, v := range r.Values {
		if _, twice := values[v.Setting]; twice {
			t.Errorf("%s is given twice", v.Setting)
		}
		values[v.Setting] = v.Text
	}
	return values
}

// An empty environment makes settings like the defaults of envoyproxy/ratelimit.
func TestDefaults(t *testing.T) {
	got := settings(t, EnvoyOptions{})
	want := map[string]string{
		"http": "0.0.0.0:8080", "grpc": "0.0.0.0:8081", "admin": "127.0.0.1:6070",
		"grpc-max-age": "24h", "grpc-max-age-grace": "1h", "log-level": "warn", "log-format": "text",
		"rules": "/srv/runtime_data/current/config", "rules-files": "all", "rules-merge": "false",
		"rls-headers": "none", "rls-header-limit": "RateLimit-Limit", "rls-header-remaining": "RateLimit-Remaining", "rls-header-reset": "RateLimit-Reset",
		"rls-shadow": "false", "rls-quota": "false", "rls-metadata": "false",
		"near-limit-ratio": "0.8", "statsd": "tcp://localhost:8125", "statsd-interval": "10s", "statsd-tags": "",
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is given: %q", name, got[name])
		}
	}
}

// How single variables are converted; "-" is a setting without a value.
func TestRead(t *testing.T) {
	for _, test := range []struct {
		environ string // space-separated
		setting string
		want    string
	}{
		{"HOST=::1 PORT=80", "http", "[::1]:80"},
		{"GRPC_PORT=9000", "grpc", "0.0.0.0:9000"},
		{"GRPC_UDS=/run/rl.sock GRPC_PORT=9000", "grpc", "unix:/run/rl.sock"},
		{"DEBUG_PORT=6071", "admin", "127.0.0.1:6071"},
		{"GRPC_SERVER_TLS_CERT=/c", "grpc-tls-cert", "-"},
		{"GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=/c GRPC_SERVER_TLS_KEY=/k", "grpc-tls-key", "/k"},
		{"GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=/c GRPC_SERVER_TLS_KEY=/k", "grpc-tls-client-ca", "-"},
		{"GRPC_SERVER_USE_TLS=1 GRPC_SERVER_TLS_CERT=/c GRPC_SERVER_TLS_KEY=/k GRPC_CLIENT_TLS_SAN=envoy", "grpc-tls-client-name", "envoy"},
		{"LOG_LEVEL=trace", "log-level", "debug"},
		{"LOG_LEVEL=Warning", "log-level", "warn"},
		{"RUNTIME_ROOT=/data/ RUNTIME_SUBDIRECTORY=ratelimit", "rules", "/data/ratelimit/config"},
		{"RUNTIME_IGNOREDOTFILES=true", "rules-files", "visible"},
		{"MERGE_DOMAIN_CONFIG=true", "rules-merge", "true"},
		{"USE_STATSD=false", "statsd", "-"},
		{"DISABLE_STATS=true", "statsd", ""},
		{"USE_PROMETHEUS=true", "statsd", "-"},
		{"USE_PROMETHEUS=true USE_STATSD=true", "statsd", "tcp://localhost:8125"},
		{"USE_PROMETHEUS=true PROMETHEUS_ADDR=:1", "metrics", ":1"},
		{"STATSD_HOST=s STATSD_PORT=1 STATSD_PROTOCOL=udp", "statsd", "udp://s:1"},
		{"USE_DOG_STATSD=true", "statsd", "dogstatsd://localhost:8125"},
		{"LIMIT_RESPONSE_HEADERS_ENABLED=true", "rls-headers", "envoy"},
		{"CACHE_KEY_PREFIX=p", "namespace", "p"},
		{"CACHE_KEY_PREFIX=a:b", "namespace", "a-b.6783a31eabf6"},
		{"CACHE_KEY_PREFIX=a/b", "namespace", "a-b.c14cddc033f6"},
		{"SHADOW_MODE=true", "rls-shadow", "true"},

		{"REDIS_TYPE=cluster", "store", "-"},
		{"REDIS_SOCKET_TYPE=tcp REDIS_URL=redis:6379", "store", "redis://redis:6379"},
		{"REDIS_SOCKET_TYPE=tcp REDIS_URL=redis:6379 REDIS_AUTH=a/b", "store", "redis://:a%2Fb@redis:6379"},
		{"REDIS_SOCKET_TYPE=tcp REDIS_URL=redis:6379 REDIS_AUTH=u:p", "store", "redis://u:p@redis:6379"},
		{"REDIS_URL=/run/redis.sock", "store", "redis+unix:///run/redis.sock"},
		{"REDIS_TYPE=SENTINEL REDIS_URL=prime,s1:26379,s2:26379 REDIS_SENTINEL_AUTH=q", "store", "redis+sentinel://s1:26379,s2:26379?master=prime&sentinel_password=q&sentinel_user="},
		{"REDIS_TYPE=CLUSTER REDIS_URL=a:1,b:2 REDIS_TLS=true REDIS_TLS_CACERT=/ca", "store", "rediss+cluster://a:1,b:2?ca=%2Fca"},
		{"REDIS_SOCKET_TYPE=tcp REDIS_URL=a:1 REDIS_TLS=true REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true REDIS_TLS_CLIENT_CERT=/c REDIS_TLS_CLIENT_KEY=/k", "store", "rediss://a:1?cert=%2Fc&key=%2Fk&verify=chain"},
		{"REDIS_URL=rediss://u:p@h:1/2", "store", "rediss://u:p@h:1/2"},
		{"MEMCACHE_HOST_PORT=a:1", "store", "-"},
		{"BACKEND_TYPE=memcache MEMCACHE_HOST_PORT=a:1,b:2 REDIS_URL=/run/redis.sock", "store", "memcached://a:1,b:2"},
		{"BACKEND_TYPE=memcache MEMCACHE_HOST_PORT=a:1 MEMCACHE_TLS=true MEMCACHE_TLS_CACERT=/ca", "store", "memcacheds://a:1?ca=%2Fca"},
	} {
		values := settings(t, EnvoyOptions{}, strings.Fields(test.environ)...)
		if got, given := values[test.setting]; given != (test.want != "-") || given && got != test.want {
			t.Errorf("%s: %s is %q (given %v), want %q", test.environ, test.setting, got, given, test.want)
		}
	}
	if got := settings(t, EnvoyOptions{AdminToken: true})["admin"]; got != "0.0.0.0:6070" {
		t.Errorf("with a token admin is %q", got)
	}
}

// A value that is invalid, or needs a missing feature, is a fault.
func TestFaults(t *testing.T) {
	for _, test := range []struct{ environ, want string }{
		{"PORT=web", `PORT: "web" is not a port between 0 and 65535`},
		{"SHADOW_MODE=maybe", `SHADOW_MODE: "maybe" is not true or false`},
		{"TRACING_SAMPLING_RATE=all", `TRACING_SAMPLING_RATE: "all" is not a number such as 0.8`},
		{"REDIS_POOL_SIZE=many", `REDIS_POOL_SIZE: "many" is not a whole number`},
		{"GRPC_MAX_CONNECTION_AGE=1", `GRPC_MAX_CONNECTION_AGE: "1" is not a time such as 150us, 10s or 24h`},
		{"CONFIG_TYPE=GRPC_XDS_SOTW", `CONFIG_TYPE: rules over xDS are not built yet`},
		{"BACKEND_TYPE=etcd", `BACKEND_TYPE: unknown value "etcd"`},
		{"BACKEND_TYPE=memcache", `MEMCACHE_HOST_PORT: BACKEND_TYPE is memcache and this is not set`},
		{"REDIS_POOL_ON_EMPTY_BEHAVIOR=CREATE", `REDIS_POOL_ON_EMPTY_BEHAVIOR: unknown value "CREATE"; envoyproxy/ratelimit would not start with it either`},
		{"REDIS_TYPE=ring REDIS_URL=a", `REDIS_TYPE: unknown value "ring"`},
		{"REDIS_URL=a:1", "REDIS_URL: REDIS_SOCKET_TYPE is unix, and this is not the path of a socket"},
		{"REDIS_TYPE=sentinel REDIS_URL=prime", "REDIS_URL: REDIS_TYPE is sentinel and there is no comma"},
		{"REDIS_SOCKET_TYPE=tcp REDIS_URL=a:1,b:2", "REDIS_URL: several servers, and REDIS_TYPE is single"},
		{"GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=/c", "GRPC_SERVER_TLS_KEY: GRPC_SERVER_USE_TLS is true and this is not set"},
		{"STATSD_PROTOCOL=sctp", `STATSD_PROTOCOL: unknown protocol "sctp"`},
		{"RUNTIME_ROOT=/a,b", `RUNTIME_ROOT: the folder "/a,b/config" has a comma in its name`},
	} {
		r := ReadEnvoy(strings.Fields(test.environ), EnvoyOptions{})
		if len(r.Faults) != 1 || r.Faults[0].Error() != test.want || r.Faults[0].Hint == "" {
			t.Errorf("%s: %v, want %s", test.environ, r.Faults, test.want)
		}
	}
}

// Set variables are reported in the order of the table, without passwords.
func TestLines(t *testing.T) {
	r := ReadEnvoy([]string{"REDIS_AUTH=hunter2", "PORT=1", "HOME=/", "REDIS_URL=redis://u:hunter2@h", "LOG_FORMAT="}, EnvoyOptions{})
	var lines []string
	for _, l := range r.Lines {
		lines = append(lines, l.Variable.Name+"="+l.Text)
	}
	if want := []string{"PORT=1", "REDIS_URL=(hidden)@h", "REDIS_AUTH=(hidden)"}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
	r = ReadEnvoy([]string{"CONFIG_TYPE=GRPC_XDS_SOTW", "CACHE_KEY_PREFIX=p", "TRACING_ENABLED=true"}, EnvoyOptions{})
	var said []string
	for i := range r.Lines {
		said = append(said, r.Lines[i].What())
	}
	if want := []string{"recognised", "used", "ignored"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
	if words := fmt.Sprint(Used, Needless, Ignored); words != "used needless ignored" {
		t.Error(words)
	}
}

// Any prefix of keys becomes a namespace, different ones become different, and a valid one stays
// unchanged.
func TestNamespace(t *testing.T) {
	allowed := regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	prefixes := []string{"p", "a.b_c-D9", ":", "::", " ", "ü", "u", "a b", "a-b", "a:", "\x00", "{tag}", strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("x", 5000)}
	seen := map[string]string{}
	for _, prefix := range prefixes {
		got := namespace(prefix)
		if !allowed.MatchString(got) {
			t.Errorf("%q becomes %q", prefix, got)
		}
		if other, twice := seen[got]; twice {
			t.Errorf("%q and %q are both %q", prefix, other, got)
		}
		seen[got] = prefix
		if allowed.MatchString(prefix) && got != prefix {
			t.Errorf("%q becomes %q", prefix, got)
		}
	}
}
