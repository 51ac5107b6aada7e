package proof_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stint/gateway/gatewaytest/program"
	"stint/internal/testkit"
)

// A call is one request to both servers.
type call struct {
	path, user, from string // from is the client's address, "" for 127.0.0.1
}

// A round is some calls at the same time, after a pause, and the statuses that both servers give.
type round struct {
	after    time.Duration
	together bool // the calls overlap, and the order of the statuses does not count
	calls    []call
	want     string
}

func times(n int, c call) []call { return slices.Repeat([]call{c}, n) }

// fromNginx has the requests for each section of docs/coming-from-nginx.md that has servers.
var fromNginx = map[string][]round{
	"A burst that passes at once": {
		{calls: times(8, call{}), want: "200 200 200 200 200 200 429 429"},
		{after: 1200 * time.Millisecond, calls: times(3, call{}), want: "200 200 429"},
	},
	"A burst that waits": {
		{together: true, calls: times(7, call{user: "ann"}), want: "200 200 200 200 200 503 503"},
		{calls: times(3, call{}), want: "200 200 200"},
		{after: 300 * time.Millisecond, together: true, calls: times(2, call{user: "bob"}), want: "200 200"},
	},
	"Some at once, the rest waits": {
		{together: true, calls: times(9, call{}), want: "200 200 200 200 200 200 200 429 429"},
	},
	"Two limits, one of them on trial": {
		{calls: times(5, call{}), want: "200 200 200 200 429"},
		{calls: times(4, call{path: "trial"}), want: "200 200 200 200"},
		{after: 2200 * time.Millisecond, calls: times(4, call{}), want: "200 200 429 429"},
	},
	"Addresses": {
		{calls: []call{{}, {from: "127.0.0.2"}, {from: "127.0.0.9"}, {from: "127.0.1.1"}, {from: "127.0.0.200"}}, want: "200 200 403 403 200"},
	},
	"A service that authenticates": {
		{calls: []call{{user: "ann"}, {user: "eve"}, {}, {user: "ann"}, {user: "ann"}, {user: "eve"}, {user: "ann"}, {user: "eve"}}, want: "200 403 401 200 200 403 429 429"},
		{after: 2200 * time.Millisecond, calls: []call{{user: "ann"}, {user: "ann"}}, want: "200 429"},
	},
}

// The servers of docs/coming-from-nginx.md give the same answers to the same requests.
func TestComingFromNginx(t *testing.T) {
	page, err := os.ReadFile("../../docs/coming-from-nginx.md")
	testkit.Must(t, err)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) }))
	t.Cleanup(app.Close)
	auth := httptest.NewServer(http.HandlerFunc(authenticate))
	t.Cleanup(auth.Close)
	ports := strings.NewReplacer("127.0.0.1:9000", app.Listener.Addr().String(), "127.0.0.1:9001", auth.Listener.Addr().String())

	seen := 0
	for section := range strings.SplitSeq(string(page), "\n## ") {
		title, text, _ := strings.Cut(section, "\n")
		parts := fenced(ports.Replace(text))
		if parts["nginx"] == "" {
			continue
		}
		seen++
		rounds, ok := fromNginx[title]
		if !ok {
			t.Errorf("no requests for the section %s", title)
		}
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			servers := map[string]string{"nginx": nginxAt(t, parts["nginx"]), "stint-gateway": runConverted(t, parts)}
			var wait sync.WaitGroup
			for name, address := range servers {
				wait.Go(func() { playRounds(t, name, address, rounds) })
			}
			wait.Wait()
		})
	}
	if seen != len(fromNginx) {
		t.Errorf("the page has %d of the %d sections", seen, len(fromNginx))
	}
}

func authenticate(w http.ResponseWriter, r *http.Request) {
	switch r.Header.Get("X-User") {
	case "ann":
	case "":
		w.WriteHeader(http.StatusUnauthorized)
	default:
		w.WriteHeader(http.StatusForbidden)
	}
}

var fences = regexp.MustCompile("(?s)\n```([a-z]+)\n(.*?)```\n")

// fenced returns the blocks of a section by their kind.
func fenced(section string) map[string]string {
	parts := map[string]string{}
	for _, m := range fences.FindAllStringSubmatch(section, -1) {
		parts[m[1]] += m[2]
	}
	return parts
}

func playRounds(t *testing.T, name, address string, rounds []round) {
	for i, r := range rounds {
		time.Sleep(r.after) // both servers count real time
		got := make([]string, len(r.calls))
		var wait sync.WaitGroup
		for j, c := range r.calls {
			wait.Go(func() { got[j] = c.send(address) })
			if !r.together {
				wait.Wait()
			}
		}
		wait.Wait()
		if r.together {
			slices.Sort(got)
		}
		if text := strings.Join(got, " "); text != r.want {
			t.Errorf("%s, round %d: %s, want %s", name, i+1, text, r.want)
		}
	}
}

// send returns the status of a request.
func (c call) send(address string) string {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	if c.from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(c.from)}
	}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+address+"/"+c.path, nil)
	if err != nil {
		return err.Error()
	}
	if c.user != "" {
		r.Header.Set("X-User", c.user)
	}
	answer, err := client.Do(r)
	if err != nil {
		return err.Error()
	}
	answer.Body.Close()
	return fmt.Sprint(answer.StatusCode)
}

// nginxAt starts nginx with the servers of a section and returns its address.
func nginxAt(t testing.TB, servers string) string {
	address, _ := runNginx(t, "worker_processes 2;", servers)
	return address
}

// runNginx starts nginx and returns its address and its process.
func runNginx(t testing.TB, processes, servers string) (address string, pid int) {
	t.Helper()
	dir := t.TempDir()
	address = testkit.Address(t)
	testkit.Must(t, os.Chmod(dir, 0o755)) // for its workers
	servers = strings.Replace(servers, "listen 80;", "listen "+address+";", 1)
	config := fmt.Sprintf(`daemon off;
%[3]s
pid %[1]s/pid;
error_log stderr;
events { worker_connections 512; }
http {
    access_log off;
    client_body_temp_path %[1]s/body;
    proxy_temp_path %[1]s/proxy;
    fastcgi_temp_path %[1]s/fastcgi;
    uwsgi_temp_path %[1]s/uwsgi;
    scgi_temp_path %[1]s/scgi;
%[2]s}
`, dir, servers, processes)
	path := filepath.Join(dir, "nginx.conf")
	testkit.Must(t, os.WriteFile(path, []byte(config), 0o600))
	cmd := exec.Command("nginx", "-e", "stderr", "-p", dir, "-c", path)
	if cmd.Err != nil {
		testkit.SkipOrFail(t, "no nginx in the path; make deps installs it")
	}
	server := program.Start(t, cmd)
	await(t, address, server.Ended)
	return address, server.Process.Pid
}

// runConverted starts stint-gateway with the Caddyfile and the rules of a section.
func runConverted(t testing.TB, parts map[string]string) string {
	t.Helper()
	address := testkit.Address(t)
	caddyfile := strings.Replace(parts["caddyfile"], "\n:80 {", "\nhttp://:"+port(address)+" {\n\tbind 127.0.0.1", 1)
	caddyfile = strings.Replace(caddyfile, "{\n", "{\n\tadmin off\n\tpersist_config off\n", 1)
	g := program.New(t)
	for name, text := range map[string]string{"Caddyfile": caddyfile, "rules.yaml": parts["yaml"], "allow.txt": parts["text"]} {
		g.Write(name, text)
	}
	g.Run()
	await(t, address, g.Ended)
	return address
}

// await waits until an address accepts connections, at most 20 s.
func await(t testing.TB, address string, ended <-chan struct{}) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			return
		}
		select {
		case <-ended:
			t.Fatalf("the server at %s ended", address)
		case <-time.After(20 * time.Millisecond): // polls another process
		}
	}
	t.Fatalf("no server at %s", address)
}
