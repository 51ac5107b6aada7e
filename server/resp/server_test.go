package resp

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/server/access"
	"stint/store/memory"
)

const rules = `
domain: api
descriptors:
  - key: user
    rate_limit: {name: users, requests: 3, per: 1h}
    descriptors:
      - key: path
        rate_limit: {name: paths, requests: 2, per: 1h}
  - key: watched
    rate_limit: {name: watched, requests: 1, per: 1h}
    shadow_mode: true
  - key: free
    rate_limit: {name: free, unlimited: true}
`

// clock is a clock that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// client is a connection to a server.
type client struct {
	t testing.TB
	net.Conn
	in *bufio.Reader
}

// start starts a server and returns its address, and its clock.
func start(t testing.TB, options Options) (address string, s *Server, now *clock) {
	t.Helper()
	now = &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(rules)})
	testkit.Must(t, err)
	store := memory.New(memory.Options{Clock: func() stint.Instant { return stint.At(now.read()) }})
	s = New(limiter.New(store, table, limiter.Options{}), options)
	return serve(t, s), s, now
}

// serve lets a server listen until the test ends, and returns its address.
func serve(t testing.TB, s *Server) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Drain(ctx, 0, 0)
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return l.Addr().String()
}

func dial(t testing.TB, address string) *client {
	t.Helper()
	c, err := net.Dial("tcp", address)
	testkit.Must(t, err)
	t.Cleanup(func() { c.Close() })
	testkit.Must(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return &client{t, c, bufio.NewReader(c)}
}

// wire returns a command in the form that clients send.
func wire(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

// trickle sends commands in pieces of random size, while the test reads answers.
func (c *client) trickle(commands [][]string) {
	var bytes strings.Builder
	for _, args := range commands {
		bytes.WriteString(wire(args...))
	}
	go func(rest string) {
		for len(rest) > 0 {
			n := min(1+rand.IntN(20_000), len(rest))
			if _, err := io.WriteString(c, rest[:n]); err != nil {
				return // the answers show it
			}
			rest = rest[n:]
		}
	}(bytes.String())
}

// send sends a command in one line, and returns the answer.
func (c *client) send(line string) string {
	c.t.Helper()
	return c.sendArgs(strings.Fields(line)...)
}

func (c *client) sendArgs(args ...string) string {
	c.t.Helper()
	_, err := io.WriteString(c, wire(args...))
	testkit.Must(c.t, err)
	return c.answer()
}

// answer reads an answer and writes it in one line: a number as 1, an array as (a b), a map as {a:b}.
func (c *client) answer() string {
	c.t.Helper()
	line, err := c.in.ReadString('\n')
	if err != nil {
		return err.Error()
	}
	line = strings.TrimSuffix(line, "\r\n")
	var n int
	kind, rest := line[0], line[1:]
	if strings.IndexByte("$*%", kind) >= 0 {
		_, err = fmt.Sscan(rest, &n)
		testkit.Must(c.t, err)
	}
	var parts []string
	switch kind {
	case '$':
		if n < 0 {
			return "nil"
		}
		b := make([]byte, n+2)
		_, err := io.ReadFull(c.in, b)
		testkit.Must(c.t, err)
		return string(b[:n])
	case '*':
		for range n {
			parts = append(parts, c.answer())
		}
		return "(" + strings.Join(parts, " ") + ")"
	case '%':
		for range n {
			parts = append(parts, c.answer()+":"+c.answer())
		}
		return "{" + strings.Join(parts, " ") + "}"
	case '_':
		return "nil"
	case ':':
		return rest
	}
	return line
}

// The commands by rules answer what the limiter decides, in both versions of the protocol.
func TestRules(t *testing.T) {
	address, _, _ := start(t, Options{})
	c := dial(t, address)
	const ok = "retry_after_ms 0 reset_after_ms 3600000 delay_ms 0 degraded 0 over 0 matched 1 reason nil"
	for _, step := range []struct{ command, want string }{
		{"STINT.CHECK api 1 user ann", "(allowed 1 rule users limit 3 remaining 2 " + ok + ")"},
		{"stint.check api 1 user ann cost 2", "(allowed 1 rule users limit 3 remaining 0 " + ok + ")"},
		{"STINT.CHECK api 1 user ann", "(allowed 0 rule users limit 3 remaining 0 retry_after_ms 3600000 reset_after_ms 3600000 delay_ms 0 degraded 0 over 0 matched 1 reason rate_limited)"},
		{"STINT.PEEK api 1 user ann", "(allowed 1 rule users limit 3 remaining 0 " + ok + ")"},
		{"STINT.CHECK api 1 user ann COST 9", "(allowed 0 rule users limit 3 remaining 0 retry_after_ms -1 reset_after_ms 3600000 delay_ms 0 degraded 0 over 0 matched 1 reason rate_limited)"},
		{"STINT.CHECK api 1 other x", "(allowed 1 rule  limit nil remaining nil retry_after_ms 0 reset_after_ms 0 delay_ms 0 degraded 0 over 0 matched 0 reason nil)"},
		{"STINT.CHECK none 1 user ann", "(allowed 1 rule  limit nil remaining nil retry_after_ms 0 reset_after_ms 0 delay_ms 0 degraded 0 over 0 matched 0 reason nil)"},
		{"STINT.INSPECT api 1 user ann", "((rule users shadow 0 limit 3 used 3 remaining 0 reset_after_ms 3600000 degraded 0))"},
		{"STINT.RESET api 1 user ann", "1"},
		{"STINT.INSPECT api 1 user ann", "((rule users shadow 0 limit 3 used 0 remaining 3 reset_after_ms 3600000 degraded 0))"},
		{"STINT.MCHECK api 2 1 user bob COST 2 2 user bob path /a COST 2", "(allowed 1 rule paths limit 2 remaining 0 " + ok + " results (" +
			"(allowed 1 rule users limit 3 remaining 1 " + ok + ") (allowed 1 rule paths limit 2 remaining 0 " + ok + ")))"},
		{"STINT.INSPECT api 1 watched x", "((rule watched shadow 1 limit 1 used 0 remaining 1 reset_after_ms 3600000 degraded 0))"},
		{"STINT.INSPECT api 1 free x", "((rule free shadow 0 limit nil used nil remaining nil reset_after_ms 0 degraded 0))"},
	} {
		if got := c.send(step.command); got != step.want {
			t.Errorf("%s:\n%s, want\n%s", step.command, got, step.want)
		}
	}
	c.send("HELLO 3")
	if got, want := c.send("STINT.CHECK api 1 user ann"), "{allowed:#t rule:users limit:3 remaining:2 retry_after_ms:0"; !strings.HasPrefix(got, want) {
		t.Errorf("%s, want %s...", got, want)
	}
}

// A denied descriptor of STINT.MCHECK charges none of them.
func TestAllOrNone(t *testing.T) {
	address, _, _ := start(t, Options{})
	c := dial(t, address)
	if got := c.send("STINT.MCHECK api 2 1 user ann 2 user bob path /a COST 3"); !strings.HasPrefix(got, "(allowed 0 rule paths") {
		t.Error(got)
	}
	if got := c.send("STINT.INSPECT api 1 user ann"); !strings.Contains(got, "used 0") {
		t.Error(got)
	}
}

// Wrong commands get an error that says what to write, and change nothing.
func TestWrong(t *testing.T) {
	address, _, _ := start(t, Options{})
	c := dial(t, address)
	for command, want := range map[string]string{
		"STINT.CHECK api 1 user":                     "-ERR wrong number of arguments for 'stint.check' command",
		"STINT.CHECK api 2 user ann":                 errPairs,
		"STINT.CHECK api 0 user ann":                 errPairs,
		"STINT.CHECK api -1 user ann":                errPairs,
		"STINT.CHECK api x user ann":                 errPairs,
		"STINT.CHECK api 1 user ann more":            errPairs,
		"STINT.CHECK api 1 user ann COST -1":         errCost,
		"STINT.CHECK api 1 user ann COST 4294967296": errCost,
		"STINT.CHECK api 1 user ann COST 1 2":        errPairs,
		"STINT.MCHECK api 2 1 user ann":              errMany,
		"STINT.MCHECK api 1 1 user ann 1 user bob":   errMany,
		"STINT.MCHECK api 1001 1 user ann":           errMany,
		"FOO bar baz":                                "-ERR unknown command 'FOO', with args beginning with: 'bar' 'baz' ",
		"SELECT 1":                                   "-ERR DB index is out of range",
		"SELECT x":                                   "-ERR value is not an integer or out of range",
		"GET a":                                      "-ERR unknown command 'GET', with args beginning with: 'a' ",
		"POST a":                                     "EOF",
		"host: a":                                    "EOF",
		"MULTI":                                      "-ERR transactions are not supported: STINT.MCHECK decides several descriptors as one",
		"EXEC":                                       "-ERR transactions are not supported: STINT.MCHECK decides several descriptors as one",
		"CLIENT FOO":                                 "-ERR unknown subcommand 'FOO'. Try CLIENT HELP.",
		"CLIENT SETNAME":                             "-ERR wrong number of arguments for 'client|setname' command",
		"CLUSTER SLOTS":                              "-ERR This instance has cluster support disabled",
		"AUTH secret":                                "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
		"HELLO 4":                                    "-NOPROTO unsupported protocol version",
		"HELLO 3 FOO":                                "-ERR Syntax error in HELLO option 'FOO'",
		"CONFIG SET save x":                          "-ERR CONFIG changes nothing here: Stint has a configuration of its own",
	} {
		if !strings.HasPrefix(want, "-") && want != "EOF" {
			want = "-" + want
		}
		if got := dial(t, address).send(command); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
	if got := c.sendArgs("STINT.CHECK", "", "1", "user", "ann"); got != "-"+errDomain {
		t.Error(got)
	}
	if got := c.sendArgs("STINT.CHECK", "api", "1", strings.Repeat("k", limiter.MaxKey+1), "ann"); got != "-"+errTooLong {
		t.Error(got)
	}
	if got := c.send("STINT.INSPECT api 1 user ann"); !strings.Contains(got, "used 0") {
		t.Error(got)
	}
}

// What clients send first is answered as they expect it.
func TestSession(t *testing.T) {
	address, _, _ := start(t, Options{Version: "v1"})
	c := dial(t, address)
	for _, step := range []struct{ command, want string }{
		{"PING", "+PONG"},
		{"ping a", "a"},
		{"ECHO a", "a"},
		{"SELECT 0", "+OK"},
		{"CLIENT SETINFO lib-name x", "+OK"},
		{"CLIENT SETINFO lib-ver 1", "+OK"},
		{"CLIENT GETNAME", "nil"},
		{"CLIENT SETNAME me", "+OK"},
		{"CLIENT GETNAME", "me"},
		{"CLIENT TRACKING ON OPTIN", "+OK"},
		{"COMMAND COUNT", fmt.Sprint(len(commands))},
		{"COMMAND INFO cl.throttle nothing", "((cl.throttle -1 (+fast) 1 1 1) nil)"},
		{"COMMAND DOCS ping", "(ping ())"},
		{"CONFIG GET save", "(save )"},
		{"CONFIG GET other", "()"},
		{"RESET", "+RESET"},
		{"CLIENT GETNAME", "nil"},
		{"HELLO 3 SETNAME you", "{server:redis version:7.2.0 proto:3 id:1 mode:standalone role:master modules:()}"},
		{"CLIENT GETNAME", "you"},
		{"CLIENT ID", "1"},
		{"QUIT", "+OK"},
		{"PING", "EOF"},
	} {
		got := strings.NewReplacer("-1", "-1").Replace(c.send(step.command))
		if got != step.want {
			t.Errorf("%s: %s, want %s", step.command, got, step.want)
		}
	}
	if got := dial(t, address).send("INFO"); !strings.Contains(got, "redis_version:7.2.0\r\n") || !strings.Contains(got, "loading:0\r\n") || !strings.Contains(got, "stint_version:v1\r\n") {
		t.Error(got)
	}
}

// Thousand commands in one write are answered in order.
func TestPipeline(t *testing.T) {
	address, _, _ := start(t, Options{})
	c := dial(t, address)
	var all strings.Builder
	for i := range 1000 {
		all.WriteString(wire("ECHO", fmt.Sprint(i)))
		all.WriteString(wire("CL.THROTTLE", "k", "2000", "1", "60"))
	}
	_, err := io.WriteString(c, all.String())
	testkit.Must(t, err)
	for i := range 1000 {
		if got := c.answer(); got != fmt.Sprint(i) {
			t.Fatalf("answer %d: %s", i, got)
		}
		if got, want := c.answer(), fmt.Sprintf("(0 2001 %d -1 %d)", 2000-i, 60*(i+1)); got != want {
			t.Fatalf("throttle %d: %s, want %s", i, got, want)
		}
	}
}

// Bytes that are no command end their connection with an error, and no other.
func TestBadBytes(t *testing.T) {
	address, _, _ := start(t, Options{})
	other := dial(t, address)
	for _, data := range []string{"*1\r\n$1073741824\r\n", "*2\r\n+x\r\n", "POST / HTTP/1.1\r\nHost: x\r\n\r\n", "PATCH / HTTP/1.1\r\nhost: x\r\n\r\nPING\r\n"} {
		c := dial(t, address)
		_, err := io.WriteString(c, data)
		testkit.Must(t, err)
		rest, err := io.ReadAll(c)
		if errors.Is(err, io.EOF) || err == nil {
			t.Logf("%.20q: %q", data, rest)
		}
		if data[0] == '*' && !strings.HasPrefix(string(rest), "-ERR Protocol error: ") {
			t.Errorf("%q: %q", data, rest)
		}
		if data[0] == 'P' && len(rest) > 0 {
			t.Errorf("a browser got %q", rest)
		}
		if got := other.send("PING"); got != "+PONG" {
			t.Fatal(got)
		}
	}
}

func sha(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }

// With a token nothing is decided before AUTH. STINT.INSPECT and STINT.RESET need a role, which the
// token of the traffic has not.
func TestAuth(t *testing.T) {
	list, err := access.Parse("access", []byte("reader read sha256:"+sha("look")+"\nhelper support sha256:"+sha("help")+"\n"))
	testkit.Must(t, err)
	var noted []Reset
	address, _, _ := start(t, Options{
		Token: "secret", Lists: []func() *access.List{func() *access.List { return list }},
		OnReset: func(r Reset) error {
			r.Key = slices.Clone(r.Key)
			for i := range r.Key {
				r.Key[i] = rule.Entry{Key: strings.Clone(r.Key[i].Key), Value: strings.Clone(r.Key[i].Value)}
			}
			noted = append(noted, r)
			return nil
		},
	})
	noPerm := func(name, role string) string {
		return "-NOPERM " + name + " needs the role " + role + ": send AUTH with the token of a caller of --admin-access who has it"
	}
	for _, tt := range []struct {
		first                    string
		auth, check, insp, reset string
	}{
		{"AUTH wrong", "-WRONGPASS invalid username-password pair or user is disabled.", "-NOAUTH Authentication required.", "-NOAUTH Authentication required.", "-NOAUTH Authentication required."},
		{"PING", "-NOAUTH Authentication required.", "-NOAUTH Authentication required.", "-NOAUTH Authentication required.", "-NOAUTH Authentication required."},
		{"AUTH secret", "+OK", "", noPerm("STINT.INSPECT", "read"), noPerm("STINT.RESET", "support")},
		{"AUTH anybody look", "+OK", "", "", noPerm("STINT.RESET", "support")},
		{"AUTH help", "+OK", "", "", "1"},
		{"HELLO 2 AUTH default help", "", "", "", "1"},
	} {
		c := dial(t, address)
		for i, step := range []struct{ command, want string }{
			{tt.first, tt.auth}, {"STINT.CHECK api 1 user ann", tt.check}, {"STINT.INSPECT api 1 user ann", tt.insp}, {"STINT.RESET api 1 user ann", tt.reset},
		} {
			got := c.send(step.command)
			if got != step.want && (step.want != "" || strings.HasPrefix(got, "-")) {
				t.Errorf("%s, step %d: %s, want %s", tt.first, i, got, step.want)
			}
		}
	}
	if len(noted) != 2 || noted[0].Caller.Name != "helper" || noted[0].Rule != "users" || *noted[0].Before.Used != 3 || noted[0].Key[0].Value != "ann" || !noted[0].Peer.IsLoopback() {
		t.Errorf("noted: %+v", noted)
	}
}

// A caller who is taken out of the list, or gets another role, has no more rights from then on, on open
// connections too.
func TestRevoked(t *testing.T) {
	parse := func(text string) *access.List {
		list, err := access.Parse("access", []byte(text))
		testkit.Must(t, err)
		return list
	}
	var list atomic.Pointer[access.List]
	list.Store(parse("helper support sha256:" + sha("help") + "\n"))
	address, _, _ := start(t, Options{Token: "secret", Lists: []func() *access.List{list.Load}})
	c, other := dial(t, address), dial(t, address)
	for _, step := range []struct{ list, want string }{
		{"", "1"},
		{"helper support sha256:" + sha("help") + "\nanother read sha256:" + sha("other"), "1"},
		{"helper read sha256:" + sha("help"), "-NOPERM STINT.RESET needs the role support: send AUTH with the token of a caller of --admin-access who has it"},
		{"another support sha256:" + sha("other"), "-NOAUTH Authentication required."},
		{"helper support sha256:" + sha("help"), "-NOAUTH Authentication required."},
	} {
		if step.list == "" {
			c.send("AUTH help")
			other.send("AUTH secret")
		} else {
			list.Store(parse(step.list))
		}
		if got := c.send("STINT.RESET api 1 user ann"); got != step.want {
			t.Errorf("with %q: %s, want %s", step.list, got, step.want)
		}
		if got := other.send("PING"); got != "+PONG" {
			t.Errorf("with the token of the traffic: %s", got)
		}
	}
}

// Tokens cannot be guessed fast: a wrong one takes a while, and a connection has few tries.
func TestGuessing(t *testing.T) {
	address, _, _ := start(t, Options{Token: "secret"})
	c := dial(t, address)
	began := time.Now()
	_, err := io.WriteString(c, strings.Repeat(wire("AUTH", "wrong"), 2)+wire("HELLO", "3", "AUTH", "default", "wrong")+wire("AUTH", "secret"))
	testkit.Must(t, err)
	for range mostTries {
		if got := c.answer(); !strings.HasPrefix(got, "-WRONGPASS") {
			t.Error(got)
		}
	}
	if got := c.answer(); got != "EOF" && !strings.Contains(got, "reset") {
		t.Errorf("after %d wrong tokens: %s", mostTries, got)
	}
	if took := time.Since(began); took < mostTries*tryPause {
		t.Errorf("%d tries took %v", mostTries, took)
	}
}

// A reset that the audit trail does not take is not made.
func TestResetNotNoted(t *testing.T) {
	address, _, _ := start(t, Options{OnReset: func(Reset) error { return errors.New("the disk is full") }})
	c := dial(t, address)
	c.send("STINT.CHECK api 1 user ann")
	if got := c.send("STINT.RESET api 1 user ann"); got != "-ERR nothing was reset: the disk is full" {
		t.Error(got)
	}
	if got := c.send("STINT.INSPECT api 1 user ann"); !strings.Contains(got, "used 1") {
		t.Error(got)
	}
}

// A server that stops answers what has arrived, and closes connections that are silent.
func TestDrain(t *testing.T) {
	address, s, _ := start(t, Options{})
	silent, half := dial(t, address), dial(t, address)
	silent.send("PING")
	half.send("PING")
	_, err := io.WriteString(half, "*1\r\n$4\r\nPI")
	testkit.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	done := make(chan bool)
	go func() { done <- s.Drain(ctx, time.Second, 100*time.Millisecond) }()
	if got := silent.answer(); got != "EOF" {
		t.Errorf("a silent connection: %s", got)
	}
	if cut := <-done; cut {
		t.Error("connections were cut")
	}
	if _, err := net.Dial("tcp", address); err == nil {
		t.Error("the server accepts connections")
	}
}
