package examples

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/internal/testkit/programs"
)

// servers are real servers behind the proxies. All of them have one file, the reports, at two
// paths. Each request is sent to each of them, byte for byte.
type servers struct {
	Addr string // address for the proxies, host:port

	t      testing.TB
	all    []*server
	mu     sync.Mutex
	served map[string][]string // names of the servers that answered with the file, by target
}

// theReports is the content of the file.
const theReports = "the reports"

// limited are the paths of the file.
var limited = []string{"/reports", "/api/reports"}

// startServers starts them all.
func startServers(t testing.TB) *servers {
	t.Helper()
	files := t.TempDir()
	for _, p := range limited {
		name := filepath.Join(files, filepath.FromSlash(p))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(theReports), 0o644); err != nil { //nolint:gosec // Apache runs as another user
			t.Fatal(err)
		}
	}
	for _, dir := range []string{files, filepath.Dir(files)} {
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // Apache runs as another user
			t.Fatal(err)
		}
	}
	s := &servers{t: t, served: map[string][]string{}}
	s.startGo()
	words := map[string]string{"FILES": files, "MODULES": modules(t)}
	names := map[string]string{
		"9101": "nginx", "9111": "Apache", "9112": "Apache, AllowEncodedSlashes On", "9113": "Apache, NoDecode",
		"9121": "Tomcat", "9122": "Tomcat, lenient",
		"9131": "Node, URL", "9132": "Node, URL decoded", "9133": "Node, url.parse", "9134": "Node, decoded",
	}
	for port, name := range names {
		address := testkit.Address(t)
		_, words[port], _ = strings.Cut(address, ":")
		s.add(name, address)
	}
	dir := filepath.Dir(programs.Adapt(t, "proxies/testdata/servers/nginx.conf", words))
	s.startNginx(dir)
	s.startApache(dir)
	s.startTomcat(dir)
	programs.Run(t, programs.Command{
		Path: programs.Binary(t, "node"), Args: []string{filepath.Join(dir, "server.js")}, Ready: s.ready("Node"),
	})
	slices.SortFunc(s.all, func(a, b *server) int { return strings.Compare(a.name, b.name) })
	s.listen()
	return s
}

// modules returns the folder of Apache's modules.
func modules(t testing.TB) string {
	t.Helper()
	const debian = "/usr/lib/apache2/modules"
	if _, err := os.Stat(debian); err != nil {
		testkit.SkipOrFail(t, "no "+debian+"; scripts/install-test-deps.sh installs it")
	}
	return debian
}

func (s *servers) add(name, address string) {
	s.all = append(s.all, &server{name: name, address: address})
}

// ready returns a function that reports whether all servers with this name prefix answer.
func (s *servers) ready(name string) func() bool {
	return func() bool {
		return !slices.ContainsFunc(s.all, func(one *server) bool {
			return strings.HasPrefix(one.name, name) && !one.serves(limited[0])
		})
	}
}

// startGo starts net/http's router, and a router that matches the decoded path.
func (s *servers) startGo() {
	reports := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, theReports) }
	mux := http.NewServeMux()
	for _, p := range limited {
		mux.HandleFunc(p, reports)
	}
	decoded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := path.Clean(r.URL.Path); slices.Contains(limited, p) && !strings.HasSuffix(r.URL.Path, "/") {
			reports(w, r)
		}
	})
	for name, h := range map[string]http.Handler{"Go": mux, "Go, decoded": decoded} {
		one := httptest.NewServer(h)
		s.t.Cleanup(one.Close)
		s.add(name, one.Listener.Addr().String())
	}
}

func (s *servers) startNginx(dir string) {
	args := []string{"-p", s.t.TempDir(), "-c", filepath.Join(dir, "nginx.conf")}
	if os.Getuid() == 0 { // other users may not enter that folder
		args = append(args, "-g", "user root;")
	}
	programs.Run(s.t, programs.Command{Path: programs.Binary(s.t, "nginx"), Args: args, Ready: s.ready("nginx")})
}

func (s *servers) startApache(dir string) {
	programs.Run(s.t, programs.Command{
		Path:  programs.Binary(s.t, "apache2"),
		Args:  []string{"-d", s.t.TempDir(), "-f", filepath.Join(dir, "apache.conf"), "-D", "FOREGROUND"},
		Ready: s.ready("Apache"),
	})
}

func (s *servers) startTomcat(dir string) {
	const home = "/usr/share/tomcat10"
	if _, err := os.Stat(home); err != nil {
		testkit.SkipOrFail(s.t, "no "+home+"; scripts/install-test-deps.sh installs it")
	}
	base := s.t.TempDir()
	for _, name := range []string{"conf", "apps", "temp", "work", "logs"} {
		if err := os.Mkdir(filepath.Join(base, name), 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, name := range []string{"server.xml", "web.xml"} {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(base, "conf", name)); err != nil {
			s.t.Fatal(err)
		}
	}
	programs.Run(s.t, programs.Command{
		Path: programs.Binary(s.t, "java"),
		Args: []string{
			"-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", home + "/bin/bootstrap.jar:" + home + "/bin/tomcat-juli.jar",
			"-Dcatalina.home=" + home, "-Dcatalina.base=" + base, "-Djava.io.tmpdir=" + filepath.Join(base, "temp"),
			"org.apache.catalina.startup.Bootstrap", "start",
		},
		Ready: s.ready("Tomcat"),
	})
}

// listen accepts requests of the proxies. A response names the servers that returned the file.
func (s *servers) listen() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = l.Close() })
	s.Addr = l.Addr().String()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.relay(conn)
		}
	}()
}

// relay answers the requests of a connection, which have no bodies.
func (s *servers) relay(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	lines := bufio.NewReaderSize(conn, 64<<10)
	for {
		first, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		for line := first; strings.TrimRight(line, "\r\n") != ""; {
			if line, err = lines.ReadString('\n'); err != nil {
				return
			}
		}
		_, target, _ := strings.Cut(first, " ")
		if i := strings.LastIndexByte(target, ' '); i >= 0 {
			target = target[:i]
		}
		body := servedBy + strings.Join(s.who(target), "; ")
		if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
			return
		}
	}
}

// servedBy is the prefix of the responses.
const servedBy = "served by: "

// who returns the names of the servers that answer a target with the file.
func (s *servers) who(target string) []string {
	s.mu.Lock()
	names, ok := s.served[target]
	s.mu.Unlock()
	if ok {
		return names
	}
	for _, one := range s.all {
		if one.serves(target) {
			names = append(names, one.name)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served[target] = names
	return names
}

// server is one of them.
type server struct {
	name, address string

	mu   sync.Mutex
	wire wire
}

// serves reports whether the server answers a target with the file.
func (s *server) serves(target string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	status, body := s.wire.get(&net.Dialer{Timeout: 10 * deadline}, s.address, target)
	return status == http.StatusOK && body == theReports
}

// wire is a connection for targets that no HTTP client would send. It is opened when needed.
type wire struct {
	conn    net.Conn
	answers *bufio.Reader
}

// get sends a request with a target, and returns the response; status 0 for none.
func (w *wire) get(d *net.Dialer, address, target string) (status int, body string) {
	for {
		fresh := w.conn == nil
		if fresh {
			conn, err := d.Dial("tcp", address)
			if err != nil {
				return 0, ""
			}
			w.conn, w.answers = conn, bufio.NewReader(conn)
		}
		if status, body, ok := w.exchange(target); ok {
			return status, body
		}
		_ = w.conn.Close()
		if w.conn = nil; fresh {
			return 0, ""
		}
	}
}

// exchange is get on the open connection.
func (w *wire) exchange(target string) (status int, body string, ok bool) {
	if err := w.conn.SetDeadline(time.Now().Add(10 * deadline)); err != nil {
		return 0, "", false
	}
	if _, err := fmt.Fprintf(w.conn, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", target); err != nil {
		return 0, "", false
	}
	resp, err := http.ReadResponse(w.answers, nil)
	if err != nil {
		return 0, "", false
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.Close {
		_ = w.conn.Close()
		w.conn = nil
	}
	return resp.StatusCode, string(text), err == nil
}
