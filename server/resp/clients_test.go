package resp

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"stint/internal/testkit"
)

// cache is the folder with the programs and clients that scripts/install-test-deps.sh brings.
const cache = "../../.cache"

// cellAnswers are the answers to two requests of a key with burst 1, of which one is made a minute.
var cellAnswers = []string{"0 2 1 -1 60", "0 2 0 -1 120"}

// Clients of other languages connect without options, and get the answers of redis-cell.
func TestClients(t *testing.T) {
	for name, tt := range map[string]struct {
		command []string
		env     string
		times   int // keys that it asks for
	}{
		"redis-py": {[]string{cache + "/venv/bin/python", "testdata/client.py"}, "", 2},
		"ioredis":  {[]string{"node", "testdata/client.js"}, "NODE_PATH=" + cache + "/clients/node_modules", 1},
		"jedis":    {[]string{"java", "-cp", cache + "/clients/java/*", "testdata/Client.java"}, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			need(t, tt.command[0])
			need(t, cache+"/clients/.installed")
			address, _, _ := start(t, Options{})
			_, port, err := net.SplitHostPort(address)
			testkit.Must(t, err)
			cmd := exec.CommandContext(t.Context(), tt.command[0], append(tt.command[1:], port)...) //nolint:gosec // from the table above
			cmd.Env = append(os.Environ(), tt.env)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			want := strings.Repeat(strings.Join(cellAnswers, "\n")+"\n", tt.times)
			if err != nil || string(out) != want {
				t.Errorf("%v: %q, want %q\n%s", err, out, want, &stderr)
			}
		})
	}
}

// need skips the test where a program or file is missing, which CI does not allow.
func need(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	if _, err := os.Stat(name); err != nil {
		testkit.SkipOrFail(t, filepath.Base(name)+" is missing: run scripts/install-test-deps.sh")
	}
}

func TestRueidis(t *testing.T) {
	address, _, _ := start(t, Options{})
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}})
	testkit.Must(t, err)
	defer c.Close()
	for _, want := range cellAnswers {
		got, err := c.Do(t.Context(), c.B().Arbitrary("CL.THROTTLE").Keys("go").Args("1", "1", "60").Build()).AsIntSlice()
		if err != nil || fmt.Sprint(got) != "["+want+"]" {
			t.Errorf("%v %v, want %s", got, err, want)
		}
	}
	answer, err := c.Do(t.Context(), c.B().Arbitrary("STINT.CHECK", "api", "1", "user", "go").Build()).AsMap()
	testkit.Must(t, err)
	remaining := answer["remaining"]
	if n, err := remaining.AsInt64(); n != 2 || err != nil {
		t.Errorf("remaining %d %v", n, err)
	}
}

func TestGoRedis(t *testing.T) {
	address, _, _ := start(t, Options{})
	for _, protocol := range []int{2, 3} {
		c := goredis.NewClient(&goredis.Options{Addr: address, Protocol: protocol})
		for _, want := range cellAnswers {
			got, err := c.Do(t.Context(), "CL.THROTTLE", fmt.Sprint("go", protocol), 1, 1, 60).Int64Slice()
			if err != nil || fmt.Sprint(got) != "["+want+"]" {
				t.Errorf("protocol %d: %v %v, want %s", protocol, got, err, want)
			}
		}
		testkit.Must(t, c.Close())
	}
}

// redis-cli and redis-benchmark, which come with Redis.
func TestRedisTools(t *testing.T) {
	need(t, "redis-cli")
	address, _, _ := start(t, Options{})
	_, port, err := net.SplitHostPort(address)
	testkit.Must(t, err)
	for _, want := range cellAnswers {
		out, err := exec.CommandContext(t.Context(), "redis-cli", "-p", port, "CL.THROTTLE", "cli", "1", "1", "60").CombinedOutput()
		if got := strings.Join(strings.Fields(string(out)), " "); err != nil || got != want {
			t.Errorf("%s %v, want %s", got, err, want)
		}
	}
	need(t, "redis-benchmark")
	out, err := exec.CommandContext(t.Context(), "redis-benchmark", "-p", port, "-n", "2000", "-P", "16", "-q", "--csv", "CL.THROTTLE", "bench", "10", "1", "60").CombinedOutput()
	if err != nil || strings.Contains(string(out), "WARNING") || !strings.Contains(string(out), `"CL.THROTTLE`) {
		t.Errorf("%v: %s", err, out)
	}
}
