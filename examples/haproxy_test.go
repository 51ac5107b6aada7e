package examples

import (
	"os/exec"
	"strings"
	"testing"

	"stint/internal/testkit"
	"stint/internal/testkit/programs"
)

// haproxy returns the asker of that name, with an unchanged socket name.
func haproxy() asker {
	for _, a := range askers {
		if a.name == "haproxy" {
			a.words = nil
			return a
		}
	}
	return asker{}
}

// The name of the socket is defined in one place. If another place has a different name, so that
// questions go nowhere or to another service, nothing passes.
func TestHAProxyNamesInOnePlace(t *testing.T) {
	for name, edit := range map[string][2]string{
		"the frontend binds another socket": {`bind "${STINT_AUTH}"`, "bind abns@OTHER"},
		"stint.lua asks another socket":     {"dst = socket", `dst = "abns@OTHER"`},
		"stint.lua asks a server":           {"dst = socket", `dst = "BACKEND"`},
	} {
		for _, form := range []string{"open", "closed"} {
			t.Run(name+"/"+form, func(t *testing.T) {
				t.Parallel()
				stint, backend := programs.Stint(t, "--config", "proxies/stint.yaml"), programs.NewBackend(t)
				edit := [2]string{edit[0], strings.NewReplacer("BACKEND", backend.Addr, "OTHER", testkit.Address(t)).Replace(edit[1])}
				a := haproxy()
				s := &setup{asker: a, t: t, stint: stint, backend: backend}
				s.url = "http://" + a.run(t, form, stint, backend.Addr, edit, [2]string{"abns@stint-auth", "abns@" + testkit.Address(t)})
				backend.Seen()
				for range 3 {
					got := s.get(programs.Client(t, "127.0.0.7"), "/reports")
					if got.status < 500 {
						t.Errorf("%d %s", got.status, got.body)
					}
				}
				for _, r := range backend.Seen() {
					if r.URL.Path != "/v1/auth" {
						t.Errorf("%v passed", r.URL)
					}
				}
			})
		}
	}
}

// Without the name HAProxy does not start, and prints the reason.
func TestHAProxyWithoutName(t *testing.T) {
	for _, form := range []string{"open", "closed"} {
		file := programs.Adapt(t, "proxies/haproxy/"+form+".cfg", map[string]string{"    setenv STINT_AUTH": "    # setenv STINT_AUTH"})
		cmd := exec.Command(programs.Binary(t, "haproxy"), "-c", "-f", file)
		cmd.Dir = file[:strings.LastIndexByte(file, '/')]
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "write setenv STINT_AUTH abns@NAME") {
			t.Errorf("%s: %v\n%s", form, err, out)
		}
	}
}

// Both forms run on one machine, each with its own Stint.
func TestHAProxyBothForms(t *testing.T) {
	socket := [2]string{"abns@stint-auth", "abns@" + testkit.Address(t)}
	backend := programs.NewBackend(t)
	setups := map[string]*setup{}
	for _, form := range []string{"open", "closed"} {
		a := haproxy()
		s := &setup{asker: a, t: t, stint: programs.Stint(t, "--config", "proxies/stint.yaml"), backend: backend}
		s.url = "http://" + a.run(t, form, s.stint, backend.Addr, socket)
		setups[form] = s
	}
	client := programs.Client(t, "127.0.0.7")
	for _, s := range setups {
		s.exhaust(client) // the limit of its own Stint
		if a := s.get(client, "/reports"); a.status != 429 {
			t.Errorf("a sixth report: %d", a.status)
		}
	}
	setups["closed"].stint.Stop()
	for range 10 {
		if a := setups["closed"].get(client, "/"); a.status != 503 {
			t.Errorf("closed, without its Stint: %d", a.status)
		}
	}
	if a := setups["open"].get(client, "/reports"); a.status != 429 {
		t.Errorf("open, with its Stint: %d", a.status)
	}
}
