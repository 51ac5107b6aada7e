package examples

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stint/internal/strictyaml"
	"stint/internal/strictyaml/parser"
	"stint/internal/testkit"
	"stint/internal/testkit/programs"
	"stint/loadtest"
)

// service has the fields of a service in a compose file that the tests check.
type service struct {
	name, image, build, network string
	command, mounts, after      []string
	env                         map[string]string
}

// readCompose reads the services of a compose file, in its order.
func readCompose(t *testing.T, name string) []service {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	doc := parser.Parse(data)
	var services []service
	for _, top := range doc.Root().Fields() {
		if top.Name != "services" {
			continue
		}
		for _, field := range top.Value.Fields() {
			s := service{name: field.Name, env: map[string]string{}}
			for _, f := range field.Value.Fields() {
				s.read(t, name, f.Name, f.Value)
			}
			services = append(services, s)
		}
	}
	for _, fault := range doc.Faults() {
		t.Errorf("%s: %v", name, fault)
	}
	return services
}

// read reads the value of one word of a service.
func (s *service) read(t *testing.T, file, word string, v strictyaml.Value) {
	texts := func() (all []string) {
		for _, e := range v.List() {
			all = append(all, e.Text())
		}
		return all
	}
	switch word {
	case "image":
		s.image = v.Text()
	case "build":
		for _, f := range v.Fields() {
			s.build = filepath.Join(s.build, f.Value.Text()) // the path of the context with the file in it
		}
	case "network_mode":
		s.network = v.Text()
	case "command":
		s.command = texts()
	case "volumes":
		s.mounts = texts()
	case "depends_on":
		s.after = texts()
	case "environment":
		for _, e := range v.Fields() {
			s.env[e.Name] = e.Value.Text()
		}
	case "ports", "networks", "restart", "stop_grace_period":
	default:
		t.Errorf("%s: %s: no test knows %q", file, s.name, word)
	}
}

// composes are the compose files of this folder, with the number of Stint services in each.
var composes = []struct {
	file   string
	stints int
}{
	{"deploy/redis-compose.yaml", 2},
	{"deploy/central/compose.yaml", 1},
	{"deploy/beside/compose.yaml", 3},
}

// Everything that compose files refer to exists: images, the folder to build, mounted files, other
// services, settings of Stint. The rules have no faults and no warnings.
func TestComposeFiles(t *testing.T) {
	settings, err := os.ReadFile("../docs/service.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range composes {
		t.Run(c.file, func(t *testing.T) {
			services := readCompose(t, c.file)
			known := func(name string) bool {
				return slices.ContainsFunc(services, func(s service) bool { return s.name == name })
			}
			for _, s := range services {
				if s.image == "" {
					if _, err := os.Stat(filepath.Join(filepath.Dir(c.file), s.build)); err != nil || filepath.Base(s.build) != "Dockerfile" {
						t.Errorf("%s is built of %q: %v", s.name, s.build, err)
					}
				}
				for _, other := range append(s.after, strings.TrimPrefix(s.network, "service:")) {
					if other != "" && !known(other) {
						t.Errorf("%s knows a service %s, which is not there", s.name, other)
					}
				}
				for _, mount := range s.mounts {
					from, _, _ := strings.Cut(mount, ":")
					if _, err := os.Stat(filepath.Join(filepath.Dir(c.file), from)); err != nil {
						t.Errorf("%s: %v", s.name, err)
					}
				}
				for name := range s.env {
					if strings.HasPrefix(name, "STINT_") && !strings.Contains(string(settings), "`"+name+"`") {
						t.Errorf("%s: no setting %s", s.name, name)
					}
				}
			}
			rules := filepath.Join(filepath.Dir(c.file), "rules.yaml")
			out, err := exec.Command(programs.Build(t), "check", "--fail-on", "note", rules).CombinedOutput()
			t.Logf("stint check %s:\n%s", rules, out)
			if err != nil {
				t.Errorf("%s: %v", rules, err)
			}
		})
	}
}

// The image is built with the Go version of this module, and its service listens on an address that
// other machines reach.
func TestDockerfile(t *testing.T) {
	image, err := os.ReadFile("deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(module))
	if version == nil || !strings.Contains(string(image), "FROM golang:"+version[1]+" AS build\n") {
		t.Errorf("the module wants Go %v, which the image is not built by", version)
	}
	env := regexp.MustCompile(`(?m)^ENV STINT_HTTP=(\S+) STINT_GRPC=(\S+)$`).FindStringSubmatch(string(image))
	if env == nil {
		t.Fatal("the image does not say where it listens")
	}
	for _, address := range env[1:] {
		if !strings.HasPrefix(address, "0.0.0.0:") {
			t.Errorf("the image listens on %s, where nobody else reaches it", address)
		}
	}
}

// startCompose starts the Stint services of a compose file, with their flags except for addresses:
// the test has its own Redis and free ports.
func startCompose(t *testing.T, file, redis string) []*programs.Service {
	t.Helper()
	var started []*programs.Service
	for _, s := range readCompose(t, file) {
		if len(s.command) == 0 || s.command[0] != "serve" {
			continue
		}
		flags := []string{"--store-timeout=5s"} // for a busy machine
		for _, flag := range s.command[1:] {
			switch name, _, _ := strings.Cut(flag, "="); name {
			case "--http", "--grpc", "--admin": // programs.Stint sets them
			case "--rules":
				flags = append(flags, "--rules="+mounted(t, file, s, strings.TrimPrefix(flag, "--rules=")))
			case "--store":
				flags = append(flags, strings.Replace(flag, "redis:6379", redis, 1))
			case "--drain-delay": // there is no load balancer to wait for
				flags = append(flags, "--drain-delay=0s")
			default:
				flags = append(flags, flag)
			}
		}
		started = append(started, programs.Stint(t, flags...))
	}
	return started
}

// mounted returns the file of this folder that a service has mounted at a path.
func mounted(t *testing.T, file string, s service, path string) string {
	t.Helper()
	for _, mount := range s.mounts {
		if from, to, _ := strings.Cut(mount, ":"); to == path+":ro" {
			return filepath.Join(filepath.Dir(file), from)
		}
	}
	t.Fatalf("%s: %s sees no %s: %v", file, s.name, path, s.mounts)
	return ""
}

// startRedis starts the Redis of a compose file, with its flags.
func startRedis(t *testing.T, file string) *testkit.RedisServer {
	t.Helper()
	for _, s := range readCompose(t, file) {
		if s.name == "redis" {
			return testkit.StartRedis(t, s.command[1:]...)
		}
	}
	t.Fatalf("%s has no redis", file)
	return nil
}

// The services of each file start with the file's flags, on a Redis with the file's flags, and
// decide as one. None of them logs a warning.
func TestCompose(t *testing.T) {
	for _, c := range composes {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			services := startCompose(t, c.file, startRedis(t, c.file).Addr)
			if len(services) != c.stints {
				t.Fatalf("%d services of Stint, want %d", len(services), c.stints)
			}
			plan := loadtest.Fleet{Callers: 1, Each: 12, Questions: []string{login("192.0.2.7")}}
			for _, s := range services {
				plan.Nodes = append(plan.Nodes, "http://"+s.HTTP)
			}
			record, err := plan.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if passed := loadtest.AllowedOf(record.Answers); passed != 10 || record.Lost > 0 {
				t.Errorf("%d of ten passed at all services together, %d questions lost", passed, record.Lost)
			}
			for _, s := range services {
				for line := range strings.Lines(s.Log()) {
					// The request has a descriptor for the rules of each file, and no file has
					// both.
					if !strings.Contains(line, `msg="unknown key;`) && (strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR")) {
						t.Errorf("a service warns: %s", line)
					}
				}
			}
		})
	}
}

// login returns a request that all the files limit to ten.
func login(address string) string {
	return fmt.Sprintf(`{"domain":"api","descriptors":[
		{"entries":[{"key":"login","value":%[1]q}]},
		{"entries":[{"key":"remote_address","value":%[1]q},{"key":"path","value":"/login"}]}]}`, address)
}
