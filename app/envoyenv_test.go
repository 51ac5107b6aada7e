package app

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/config"
	"stint/internal/testkit"
	"stint/internal/testkit/programs"
)

// Every setting that a variable of envoyproxy/ratelimit maps to exists, and accepts the variable's
// default.
func TestEnvoyEnvironmentNamesSettings(t *testing.T) {
	configuration := settings.Default()
	all := configuration.Settings()
	for _, v := range config.EnvoyVariables() {
		if v.Setting != "" && settings.Find(all, v.Setting) == nil {
			t.Errorf("%s becomes %s, which is no setting", v.Name, v.Setting)
		}
	}
	configuration, err := settings.Configure([]settings.Given{{Name: "envoy-env", Value: "true", Where: "--envoy-env"}}, nil)
	testkit.Must(t, err)
	if configuration.HTTP != "0.0.0.0:8080" || configuration.GRPC != "0.0.0.0:8081" || configuration.Admin != "127.0.0.1:6070" || configuration.Store != "memory" ||
		!slices.Equal(configuration.Rules, []string{"/srv/runtime_data/current/config"}) || configuration.RLS.MaxAge != 24*time.Hour {
		t.Errorf("%+v", configuration)
	}
}

// The order is: a flag, then STINT_ variables, then those of envoyproxy/ratelimit, then the file;
// without --envoy-env their variables are not read.
func TestEnvoyEnvironmentOrder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stint.yaml")
	write(t, file, "http: 127.0.0.1:1\ngrpc: 127.0.0.1:1\nadmin: 127.0.0.1:1\ndemo: x\n")
	theirs := []string{"STINT_CONFIG=" + file, "PORT=2", "GRPC_PORT=2", "DEBUG_PORT=2", "LOG_LEVEL=info"}
	for _, test := range []struct {
		name  string
		flags []settings.Given
		env   []string
		want  string // values of http grpc admin log-level
	}{
		{"off", nil, nil, "127.0.0.1:1 127.0.0.1:1 127.0.0.1:1 info"},
		{"on", nil, []string{"STINT_ENVOY_ENV=true"}, "0.0.0.0:2 0.0.0.0:2 127.0.0.1:2 info"},
		{"with a token", nil, []string{"STINT_ENVOY_ENV=true", "STINT_ADMIN_TOKEN=x"}, "0.0.0.0:2 0.0.0.0:2 0.0.0.0:2 info"},
		{"ours win", []settings.Given{{Name: "grpc", Value: "127.0.0.1:4", Where: "--grpc"}}, []string{"STINT_ENVOY_ENV=1", "STINT_HTTP=127.0.0.1:3", "STINT_GRPC=127.0.0.1:3"}, "127.0.0.1:3 127.0.0.1:4 127.0.0.1:2 info"},
		{"a flag switches it off", []settings.Given{{Name: "envoy-env", Value: "false", Where: "--envoy-env"}}, []string{"STINT_ENVOY_ENV=1"}, "127.0.0.1:1 127.0.0.1:1 127.0.0.1:1 info"},
	} {
		c, err := settings.Configure(test.flags, slices.Concat(theirs, test.env))
		testkit.Must(t, err)
		if got := strings.Join([]string{c.HTTP, c.GRPC, c.Admin, c.LogLevel}, " "); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	_, err := settings.Configure(nil, []string{"STINT_ENVOY_ENV=1", "PORT=web"})
	if fault, ok := err.(interface{ Unwrap() []error }); !ok || len(fault.Unwrap()) != 1 || err.Error() != `PORT: "web" is not a port between 0 and 65535` {
		t.Errorf("error %v", err)
	}
	c, err := settings.Configure(nil, []string{"STINT_ENVOY_ENV=1", "TRACING_ENABLED=true", "REDIS_PERSECOND=false"})
	testkit.Must(t, err)
	if len(c.Warnings) != 1 || !strings.HasPrefix(c.Warnings[0], "TRACING_ENABLED=true is ignored: ") {
		t.Errorf("warnings %q", c.Warnings)
	}
}

// release writes the rules of a release and changes the link to it, as a deployment does.
func release(t *testing.T, root, name, rules string) {
	t.Helper()
	write(t, filepath.Join(root, name, "ratelimit/config/limits"), rules)
	link := filepath.Join(root, "next")
	testkit.Must(t, os.Symlink(name, link))
	testkit.Must(t, os.Rename(link, filepath.Join(root, "current")))
}

// A deployment of envoyproxy/ratelimit changes only the image: its folder of rules, the change of
// its link, its health, its page of limits and its statistics work.
func TestEnvoyImageSwap(t *testing.T) {
	root := t.TempDir()
	release(t, root, "1", rulesOf(3))
	statsd, err := net.ListenPacket("udp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer statsd.Close()
	_, port, _ := net.SplitHostPort(statsd.LocalAddr().String())
	log := new(sink)
	config, err := settings.Configure([]settings.Given{{Name: "envoy-env", Value: "true", Where: "--envoy-env"}}, []string{
		"HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "DEBUG_PORT=0", "LOG_LEVEL=INFO",
		"RUNTIME_ROOT=" + root + "/current", "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_IGNOREDOTFILES=true",
		"USE_STATSD=true", "STATSD_HOST=127.0.0.1", "STATSD_PROTOCOL=udp", "STATSD_PORT=" + port, "STATS_FLUSH_INTERVAL=50ms", "EXTRA_TAGS=zone:a",
		"USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:0", "LIMIT_RESPONSE_HEADERS_ENABLED=true", "LIMIT_RESET_HEADER=X-Reset",
	})
	testkit.Must(t, err)
	config.Output, config.RESP = log, ""
	a, err := New(config)
	testkit.Must(t, err)
	s := &service{App: a, t: t, log: log}
	testkit.Must(t, s.Start(t.Context()))
	t.Cleanup(func() { s.Stop(context.Background()) })

	c := programs.DialRLS(t, s.Addr("grpc"), nil)
	answer, err := c.Ask(t.Context(), "api", "user=x")
	testkit.Must(t, err)
	if answer.Statuses[0].Remaining != 2 || answer.Headers["RateLimit-Limit"] != "3" || answer.Headers["RateLimit-Remaining"] != "2" || answer.Headers["X-Reset"] == "" {
		t.Errorf("%+v", answer)
	}
	if status, _, body := s.get("http", "/healthcheck"); status != http.StatusOK || body != "OK" {
		t.Errorf("healthcheck: %d %q", status, body)
	}
	if _, _, body := s.get("admin", "/rlconfig"); !strings.HasPrefix(body, "api.user: unit=8784h0m0s requests_per_unit=3, shadow_mode: false") {
		t.Errorf("rlconfig: %s", body)
	}
	line := "ratelimit.service.rate_limit.api.user.total_hits.__zone=a:1|c\n"
	testkit.Must(t, statsd.SetReadDeadline(time.Now().Add(testTimeout)))
	for buffer, seen := make([]byte, 64<<10), ""; !strings.Contains(seen, line); {
		n, _, err := statsd.ReadFrom(buffer)
		if err != nil {
			t.Fatalf("%v; so far came %s", err, seen)
		}
		seen += string(buffer[:n])
	}
	if _, _, body := s.get("metrics", "/metrics"); !strings.Contains(body, `ratelimit_service_rate_limit_total_hits{domain="api",key1="user",key2=""} 1`) {
		t.Errorf("metrics: %s", body)
	}

	at := s.log.size()
	release(t, root, "2", rulesOf(7))
	s.log.await(t, at, "rules loaded", "files changed")
	if answer, err = c.Ask(t.Context(), "api", "user=x"); err != nil || answer.Statuses[0].Limit != 7 || answer.Statuses[0].Remaining != 5 {
		t.Errorf("after the swap: %+v, error %v", answer, err)
	}
	at = s.log.size()
	write(t, filepath.Join(root, "2/ratelimit/config/deeper/more.txt"), "domain: more\ndescriptors: []\n")
	s.log.await(t, at, "rules loaded", "domains=2")
	at = s.log.size()
	release(t, root, "3", badRules)
	s.log.await(t, at, "rules refused: keeping the old ones", "limits", "line=3")
	if answer, err = c.Ask(t.Context(), "api", "user=x"); err != nil || answer.Statuses[0].Limit != 7 {
		t.Errorf("after a bad release: %+v, error %v", answer, err)
	}
}

// The variables for Redis become the URL of that server, with its password.
func TestEnvoyEnvironmentRedis(t *testing.T) {
	server := testkit.StartRedis(t, "--requirepass", "a:b/c")
	socket := filepath.Join(t.TempDir(), "redis.sock")
	testkit.StartRedis(t, "--unixsocket", socket)
	for _, names := range [][]string{
		{"REDIS_SOCKET_TYPE=tcp", "REDIS_TYPE=SINGLE", "REDIS_URL=" + server.Addr, "REDIS_AUTH=default:a:b/c"},
		{"REDIS_URL=" + socket},
	} {
		root := t.TempDir()
		release(t, root, "1", rulesOf(3))
		config, err := settings.Configure([]settings.Given{{Name: "envoy-env", Value: "true", Where: "--envoy-env"}}, append(names, "RUNTIME_ROOT="+root+"/current", "RUNTIME_SUBDIRECTORY=ratelimit", "USE_STATSD=false"))
		testkit.Must(t, err)
		s := start(t, func(c *settings.Config) {
			log := c.Output
			*c = config
			c.HTTP, c.GRPC, c.Admin, c.RESP, c.Output, c.StoreTimeout = "127.0.0.1:0", "", "127.0.0.1:0", "", log, patient
		})
		if body := s.ask(t, "user=x"); !strings.Contains(body, `"remaining":2`) || strings.Contains(body, `"degraded":true`) {
			t.Errorf("%q: %s", names, body)
		}
	}
}

// Without rules the service does not start, and the error says what is missing.
func TestRulesFiles(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.MkdirAll(filepath.Join(dir, "empty/.hidden"), 0o755))
	write(t, filepath.Join(dir, "empty/.hidden/rules"), rulesOf(3))
	for _, test := range []struct{ folder, files, want string }{
		{"none", settings.FilesAll, "rules: " + dir + "/none: cannot find it: no such file"},
		{"empty", settings.FilesVisible, "rules: no file in "},
		{"empty", settings.FilesYAML, dir + "/empty: no rule file here"},
		{"empty", settings.FilesAll, ""},
	} {
		config := settings.Default()
		config.Rules, config.RulesFiles, config.Output = []string{filepath.Join(dir, test.folder)}, test.files, io.Discard
		if _, err := New(config); (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s, %s: error %v, want %q", test.folder, test.files, err, test.want)
		}
	}
}

// With --rules-merge a domain may be in several files.
func TestRulesMerge(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), rulesOf(3))
	write(t, filepath.Join(dir, "b.yaml"), strings.Replace(rulesOf(5), "user", "app", 1))
	for _, merge := range []bool{true, false} {
		config := settings.Default()
		config.Rules, config.RulesMerge, config.Output = []string{dir}, merge, io.Discard
		a, err := New(config)
		switch {
		case !merge && (err == nil || !strings.Contains(err.Error(), "stands in two files")):
			t.Errorf("error %v", err)
		case merge && (err != nil || len(a.limiter.Table().Domain("api").Nodes()) != 2):
			t.Errorf("merged: error %v", err)
		}
	}
}
