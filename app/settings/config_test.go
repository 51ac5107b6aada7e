package settings

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
)

// A flag overrides the environment, that the file, and that the defaults.
func TestConfigurePrecedence(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "stint.yaml")
	testkit.Must(t, os.WriteFile(file, []byte("http: :1\ngrpc: :1\nadmin: 127.0.0.1:1\nrules: [a.yaml, b.yaml]\npprof: true\n"), 0o644))
	env := []string{"STINT_CONFIG=" + file, "STINT_HTTP=:2", "STINT_GRPC=:2", "STINT_RESP=", "STINT_PPROF=", "PATH=/bin", "STINT_PORT=tcp://10.0.0.1"}
	flags := []Given{{"http", ":3", "--http"}}

	c, err := Configure(flags, env)
	testkit.Must(t, err)
	for _, test := range []struct{ name, got, want string }{
		{"flag", c.HTTP, ":3"},
		{"environment", c.GRPC, ":2"},
		{"empty environment", c.RESP, ""},
		{"file", c.Admin, "127.0.0.1:1"},
		{"default", c.LogFormat, "text"},
	} {
		if test.got != test.want {
			t.Errorf("%s: %q, want %q", test.name, test.got, test.want)
		}
	}
	if !c.Pprof {
		t.Error("an empty variable switched pprof off, but says nothing about it")
	}
	if want := []string{filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")}; !slices.Equal(c.Rules, want) {
		t.Errorf("rules %q, want %q: relative to the file", c.Rules, want)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings %q", c.Warnings)
	}

	c, err = Configure([]Given{{"rules", "x.yaml", "--rules"}, {"rules", "y.yaml", "--rules"}}, append(env, "STINT_HTPP=:9"))
	testkit.Must(t, err)
	if want := []string{"x.yaml", "y.yaml"}; !slices.Equal(c.Rules, want) {
		t.Errorf("rules %q, want %q: a flag replaces the list of the file", c.Rules, want)
	}
	if want := "STINT_HTPP is no setting, is STINT_HTTP meant?"; !slices.Equal(c.Warnings, []string{want}) {
		t.Errorf("warnings %q, want %q", c.Warnings, want)
	}
}

// Every field has its name in flags, environment and file, and accepts its own text.
func TestSettings(t *testing.T) {
	c := Default()
	c.Rules, c.TrustedProxies = []string{"a", "b"}, []string{"10.0.0.0/8", "::1"}
	var again Config
	copies := again.Settings()
	for i, s := range c.Settings() {
		if err := s.Check(); err != nil {
			t.Errorf("%s: the default is refused: %v", s.Name, err)
		}
		if s.Type() == "string" && s.String() == "" {
			continue
		}
		if err := copies[i].Set(s.String()); err != nil {
			t.Errorf("%s does not take back %q: %v", s.Name, s.String(), err)
		}
	}
	again.Output = c.Output
	if !slices.Equal(again.Rules, c.Rules) || again.Memory != c.Memory || again.DrainTimeout != c.DrainTimeout || again.Admin != c.Admin {
		t.Errorf("%+v, want %+v", again, c)
	}
	s := Find(c.Settings(), "drain-delay")
	if got := s.Env(); got != "STINT_DRAIN_DELAY" {
		t.Errorf("environment name %q", got)
	}
}

// One bad value per fault, set by a flag.
func TestBadValues(t *testing.T) {
	for _, test := range []struct{ name, value, problem, hint string }{
		{"http", "8080", `"8080" is not an address`, "write HOST:PORT"},
		{"otlp", "collector:4317", "not the URL of a collector", "write http://HOST:4318"},
		{"otlp", "http://user:secret@collector:4318", "not the URL of a collector", "OTEL_EXPORTER_OTLP_HEADERS"},
		{"otlp", "grpc://collector:4317/v1", `"grpc://collector:4317/v1" has a path`, "write http://HOST:4318"},
		{"otlp-sample", "2", "2 is no part of a whole", "between 0 and 1"},
		{"http", "127.0.0.1:http", "no port between 0 and 65535", "write HOST:PORT"},
		{"http", "127.0.0.1:65536", "no port between 0 and 65535", "write HOST:PORT"},
		{"store", "redis://user:password@host/x", `"x" is not the number of a database`, "redis://HOST:PORT/0"},
		{"store", "redis://user:password%@host", "the URL cannot be read", "escape special characters"},
		{"store", "postgres://user:password@x", `unknown store "postgres"`, "use memory, or redis://"},
		{"namespace", "a:b", "a character that is not allowed", "letters, digits"},
		{"namespace", "", "namespace of 0 characters", "1 to 64 letters"},
		{"memory", "lots", `"lots" is not a size`, "512MiB"},
		{"memory", "1KiB", "1024 bytes is too little", "1MiB"},
		{"memory", "99999999999TiB", "is not a size", "512MiB"},
		{"drain-delay", "5", `"5" is not a time`, "5s"},
		{"drain-timeout", "-1s", "-1s is negative", "positive"},
		{"pprof", "yes please", "neither true nor false", "true or false"},
		{"trusted-proxies", "10.0.0.0/33", "neither an address nor a prefix", "10.0.0.0/8"},
		{"auth-deny", "200", "200 is no status of a refusal", "400 to 499"},
		{"auth-deny", "no", `"no" is no status`, "400 to 499"},
		{"auth-wait", "-1s", "-1s is negative", "positive"},
		{"log-format", "xml", `unknown value "xml"`, "use text or json"},
		{"log-level", "loud", `unknown value "loud"`, "debug or info"},
		{"nothing", "", `unknown setting "nothing"`, "stint help serve"},
	} {
		_, err := Configure([]Given{{test.name, test.value, "--" + test.name}}, nil)
		var fault *Error
		if !errors.As(err, &fault) {
			t.Errorf("%s=%s: error %v, want a ConfigError", test.name, test.value, err)
			continue
		}
		if fault.Where != "--"+test.name || !strings.Contains(fault.Problem, test.problem) || !strings.Contains(fault.Hint, test.hint) {
			t.Errorf("%s=%s: %s, hint %q; want %q, hint %q", test.name, test.value, fault, fault.Hint, test.problem, test.hint)
		}
		if strings.Contains(err.Error(), "password") {
			t.Errorf("%s: the error shows the password", test.name)
		}
	}
}

// Faults that only several values show together.
func TestBadCombinations(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Config)
		want   string // "" for none
	}{
		{"the defaults", func(*Config) {}, ""},
		{"no listener", func(c *Config) { c.HTTP, c.GRPC, c.Admin = "", "", "" }, "http: no listener is left"},
		{"admin for all", func(c *Config) { c.Admin = "0.0.0.0:8082" }, `admin: admin address "0.0.0.0:8082" can be reached from other machines`},
		{"admin on all addresses", func(c *Config) { c.Admin = ":8082" }, `admin: admin address ":8082" can be reached`},
		{"admin for all, with a token", func(c *Config) { c.Admin, c.AdminToken = "0.0.0.0:8082", "secret" }, ""},
		{"admin for all, with a file", func(c *Config) { c.Admin, c.AdminTokenFile = "0.0.0.0:8082", "f" }, ""},
		{"admin on ::1", func(c *Config) { c.Admin = "[::1]:8082" }, ""},
		{"admin on localhost", func(c *Config) { c.Admin = "localhost:8082" }, ""},
		{"two tokens", func(c *Config) { c.AdminToken, c.AdminTokenFile = "secret", "f" }, "admin-token-file: admin-token is given too"},
		{"a demo without a listener", func(c *Config) { c.HTTP, c.Demo = "", "x" }, "demo: there is no HTTP address"},
		{"too long a wait", func(c *Config) { c.AuthWait = time.Minute }, "auth-wait: 1m0s is too long"},
		{"the zero Config", func(c *Config) { *c = Config{} }, "rules-files: unknown value"},
		{"a value put there by a program", func(c *Config) { c.TrustedProxies = []string{"x"} }, "trusted-proxies: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := Default()
			test.change(&c)
			switch err := c.Check(); {
			case test.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)):
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// One bad file per fault in testdata/config; its first line is the expected error,
// its second the expected hint.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/config/*.bad.yaml")
	testkit.Must(t, err)
	if len(files) < 10 {
		t.Fatalf("found %d files", len(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			testkit.Must(t, err)
			lines := strings.SplitN(string(data), "\n", 3)
			_, err = ParseFile(filepath.Base(file), data)
			var fault *Error
			if !errors.As(err, &fault) {
				t.Fatalf("error %v, want a ConfigError", err)
			}
			if got := "# " + fault.Error(); got != lines[0] {
				t.Errorf("error %q, want %q", got, lines[0])
			}
			if got := "# hint: " + fault.Hint; got != lines[1] {
				t.Errorf("hint %q, want %q", got, lines[1])
			}
		})
	}
}

func TestParseConfig(t *testing.T) {
	for _, test := range []struct{ name, file, want string }{
		{"empty", "", ""},
		{"comments", "# nothing\n", ""},
		{"null", "~\n", ""},
		{"values", "http: \"\"\npprof: on\ndrain-delay: 5s\nmemory: 67108864\n", "http= pprof=on drain-delay=5s memory=67108864"},
		{"one rule", "rules: r.yaml\n", "rules=/etc/stint/r.yaml"},
		{"an absolute path", "rules: [/r.yaml]\n", "rules=/r.yaml"},
		{"no rules", "rules: []\n", "rules="},
		{"an alias", "http: &a 127.0.0.1:1\nadmin: *a\n", "http=127.0.0.1:1 admin=127.0.0.1:1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file, err := ParseFile("/etc/stint/stint.yaml", []byte(test.file))
			if test.name == "values" {
				// "on" is no boolean of YAML 1.2, and not one of ours either.
				if err == nil || !strings.Contains(err.Error(), "stint.yaml:2: pprof") {
					t.Errorf("error %v", err)
				}
				return
			}
			testkit.Must(t, err)
			var words []string
			for _, g := range file.Given {
				words = append(words, g.Name+"="+g.Value)
			}
			if got := strings.Join(words, " "); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// A missing config file is an error, not an empty file.
func TestConfigureMissingFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "none.yaml")
	_, err := Configure([]Given{{"config", name, "--config"}}, nil)
	if want := name + ": cannot read the config file: no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

// A config file with any bytes is read or refused, and what is read can be applied.
func FuzzParseConfig(f *testing.F) {
	files, err := filepath.Glob("testdata/config/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("http: 127.0.0.1:0\nrules: [a, b]\ndrain-delay: 5s\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := ParseFile("stint.yaml", data)
		if err != nil {
			return
		}
		c := Default()
		if err := c.apply(file.Given); err != nil {
			t.Errorf("read, and then refused: %v", err)
		}
	})
}
