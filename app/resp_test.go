package app

import (
	"bufio"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
)

// talk sends lines to a Redis server, and returns the first line of each answer.
func talk(t *testing.T, conn net.Conn, lines ...string) (answers []string) {
	t.Helper()
	in := bufio.NewReader(conn)
	for _, line := range lines {
		_, err := fmt.Fprintf(conn, "%s\r\n", line)
		testkit.Must(t, err)
		answer, err := in.ReadString('\n')
		testkit.Must(t, err)
		answers = append(answers, strings.TrimSpace(answer))
		for range strings.Count(answer, "*") * 5 {
			_, err := in.ReadString('\n')
			testkit.Must(t, err)
		}
	}
	return answers
}

// Redis clients are served with TLS, and with the token of the file. A reset by a caller with the role
// is in the audit trail, with who made it.
func TestRESP(t *testing.T) {
	dir, authority := t.TempDir(), testkit.NewAuthority(t)
	cert, key := authority.Sign(t, time.Hour, "localhost")
	write(t, filepath.Join(dir, "cert"), string(cert))
	write(t, filepath.Join(dir, "key"), string(key))
	write(t, filepath.Join(dir, "token"), "secret\n")
	write(t, filepath.Join(dir, "access"), "ann support sha256:"+fmt.Sprintf("%x", sha256.Sum256([]byte("help")))+"\n")
	s := startWithRecords(t, rulesOf(2), "memory", func(c *settings.Config) {
		c.RESP, c.RESPTokenFile, c.AdminAccess = "127.0.0.1:0", filepath.Join(dir, "token"), filepath.Join(dir, "access")
		c.RESPTLS.Cert, c.RESPTLS.Key = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	})
	conn, err := tls.Dial("tcp", s.Addr("resp"), &tls.Config{RootCAs: authority.Pool(), ServerName: "localhost"})
	testkit.Must(t, err)
	defer conn.Close()
	got := talk(t, conn, "PING", "AUTH secret", "CL.THROTTLE k 1 1 60", "STINT.RESET api 1 user x", "AUTH help", "STINT.RESET api 1 user x")
	want := []string{"-NOAUTH", "+OK", "*5", "-NOPERM", "+OK", ":1"}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("step %d: %s, want %s", i, got[i], want[i])
		}
	}
	if status, _, body := s.do(http.MethodGet, "admin", "/v1/audit", "", "Authorization", "Bearer help"); status != 200 || !strings.Contains(body, `"reset"`) || !strings.Contains(body, `"ann"`) {
		t.Errorf("the audit trail: %d %s", status, body)
	}
}

// Other machines need a token.
func TestRESPNeedsToken(t *testing.T) {
	c := settings.Default()
	c.RESP = "0.0.0.0:6380"
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "no token is set") {
		t.Errorf("New: %v", err)
	}
}
