package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stint/internal/redistest"
	"stint/internal/strictyaml"
)

const deployDir = "../../examples/deploy"

// composed is what the test wants to know of a service of a compose file.
type composed struct {
	command, mounts []string
	env             map[string]string
}

// readCompose reads the services of a compose file, by their names.
func readCompose(t *testing.T, name string) map[string]composed {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	doc := strictyaml.Parse(data)
	services := map[string]composed{}
	texts := func(v strictyaml.Value) (all []string) {
		for _, e := range v.List() {
			all = append(all, e.Text())
		}
		return all
	}
	for _, top := range doc.Root().Fields() {
		if top.Name != "services" {
			continue
		}
		for _, service := range top.Value.Fields() {
			c := composed{env: map[string]string{}}
			for _, f := range service.Value.Fields() {
				switch f.Name {
				case "command":
					c.command = texts(f.Value)
				case "volumes":
					c.mounts = texts(f.Value)
				case "environment":
					for _, e := range f.Value.Fields() {
						c.env[e.Name] = e.Value.Text()
					}
				}
			}
			services[service.Name] = c
		}
	}
	for _, fault := range doc.Faults() {
		t.Errorf("%s: %v", name, fault)
	}
	return services
}

// The services of the compose file start as it says, on the Redis as it says, and decide
// as one; none has anything to warn of.
func TestCompose(t *testing.T) {
	rules := filepath.Join(deployDir, "rules.yaml")
	checkFiles(t, rules)
	services := readCompose(t, filepath.Join(deployDir, "redis-compose.yaml"))
	if len(services) != 3 || len(services["redis"].command) == 0 {
		t.Fatalf("services %v, want redis and two of stint", services)
	}
	store := redistest.Start(t, services["redis"].command[1:]...)
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	for _, name := range []string{"stint-a", "stint-b"} {
		s := services[name]
		if len(s.mounts) != 1 || s.mounts[0] != "./rules.yaml:/etc/stint/rules.yaml:ro" || s.env["STINT_ADMIN_TOKEN"] == "" || len(s.command) == 0 || s.command[0] != "serve" {
			t.Fatalf("%s: %+v", name, s)
		}
		flags := []string{"--admin-token=" + s.env["STINT_ADMIN_TOKEN"], "--store-timeout=1s"} // for a busy machine
		for _, flag := range s.command[1:] {
			flag = strings.Replace(flag, "redis:6379", store.Addr, 1)
			flag = strings.Replace(flag, "0.0.0.0:8080", "127.0.0.1:0", 1)
			flag = strings.Replace(flag, "0.0.0.0:8081", "127.0.0.1:0", 1)
			flag = strings.Replace(flag, "0.0.0.0:8082", "127.0.0.1:0", 1)
			if !strings.HasPrefix(flag, "--rules=/etc/stint/rules.yaml") {
				flags = append(flags, flag)
			}
		}
		n := startNode(t, string(text), flags...)
		for range 8 {
			a, err := n.ask(t.Context(), "login", "42")
			if err != nil || a.status != 200 || a.Degraded {
				t.Fatalf("%s: %+v, error %v", name, a, err)
			}
			if a.Allowed {
				passed++
			}
		}
		if log := n.log(); strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR") {
			t.Errorf("%s warns:\n%s", name, log)
		}
	}
	if passed != 10 {
		t.Errorf("%d of ten passed at the two services", passed)
	}
}
