package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"stint/server/access"
)

// adminText is the part of the help text that all commands over the admin API share.
const adminText = `
The address of the service is --admin (host:port, https://host:port or unix:PATH), else
STINT_ADMIN, else 127.0.0.1:8082. If the service needs a token, give --admin-token-file, or set
STINT_ADMIN_TOKEN or STINT_ADMIN_TOKEN_FILE. --json prints the answer of the service unchanged. The
exit status is 1 if the service cannot be reached or refuses.

The role of the token must be %s.`

// keyText is the part of the help text that all commands about a key share.
const keyText = `
Each KEY=VALUE is an entry of the descriptor, in the order of the rules. Instead, --body reads
the body of a check, which may have several descriptors or a limit of its own.

`

// adminTextFor returns adminText for a command that needs a role.
func adminTextFor(role access.Role) string { return adminTextOf(role.String() + " or higher") }

// adminTextOf returns adminText for a command that needs several roles.
func adminTextOf(roles string) string { return fmt.Sprintf(adminText, roles) }

// AdminCommands returns the commands over the admin API.
func AdminCommands() []Command { return append(limitCommands(), recordCommands()...) }

func limitCommands() []Command {
	return []Command{
		{
			Name: "inspect", Args: "[flags] KEY=VALUE...", Summary: "show how much a key has used", Run: runInspect, Flags: keyFlags("inspect"),
			Text: "Shows the limits that apply to a descriptor and how much of each its key has used.\nIt charges nothing.\n" +
				keyText + "  stint inspect --domain api user=42\n" + adminTextFor(access.Read),
		},
		{
			Name: "reset", Args: "[flags] KEY=VALUE...", Summary: "reset the counts of a key", Run: runReset, Flags: keyFlags("reset"),
			Text: "Resets the counts of a descriptor's key, in all limits that apply to it.\n" +
				keyText + "  stint reset --domain api user=42\n" + adminTextFor(access.Support),
		},
		whyCommand(), topCommand(), usageCommand(), lossCommand(),
		adviseCommand(),
		{
			Name: "limits", Args: "[flags]", Summary: "show the current limits", Run: runLimits, Flags: adminFlags("limits"),
			Text: "Shows the current limits of a service, by domain.\n" + adminTextFor(access.Read),
		},
		{
			Name: "health", Args: "[flags]", Summary: "report whether a service is ready", Run: runHealth, Flags: adminFlags("health"),
			Text: "Reports whether a service accepts calls, its rules and its store.\nThe exit status is 1 if it does not.\n" + adminTextFor(access.Read),
		},
	}
}

// adminCall has the flags of a command that calls the admin API of a service.
type adminCall struct {
	addr, token, tokenFile string
	ca, cert, key          string // names of PEM files for TLS
	json                   bool

	domain, body string // for commands about a key
	why          string // for reset
	cost         uint32 // for why; 0: the default of a check
}

// textFlag is a flag whose value is a text, by default "".
type textFlag struct {
	to          *string
	name, usage string
}

// texts adds flags to a set.
func texts(flags *pflag.FlagSet, list ...textFlag) *pflag.FlagSet {
	for _, f := range list {
		flags.StringVar(f.to, f.name, "", f.usage)
	}
	return flags
}

// textFlags returns the flags that all commands have which call a service, and more behind them.
func (c *adminCall) textFlags(name string, more ...textFlag) *pflag.FlagSet {
	return texts(c.flagSet(name), more...)
}

// flagSet returns the flags that all commands have which call a service.
func (c *adminCall) flagSet(name string) *pflag.FlagSet {
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	flags.SortFlags = false
	texts(flags,
		textFlag{&c.addr, "admin", "`ADDR` of the admin listener, host:port, https://host:port or unix:PATH (default 127.0.0.1:8082)"},
		textFlag{&c.token, "admin-token", "`TOKEN` to send; other users of this machine can see it in the list of processes"},
		textFlag{&c.tokenFile, "admin-token-file", "`FILE` with the token"},
		textFlag{&c.ca, "admin-ca", "`FILE` of the authority that signed the certificate of the service; turns TLS on"},
		textFlag{&c.cert, "admin-cert", "`FILE` of the client certificate, if the service requires one"},
		textFlag{&c.key, "admin-key", "`FILE` of its private key"})
	flags.BoolVar(&c.json, "json", false, "print the answer as JSON")
	return flags
}

func (c *adminCall) keyFlags(name string) *pflag.FlagSet {
	flags := c.textFlags(name,
		textFlag{&c.domain, "domain", "`DOMAIN` of the rules"},
		textFlag{&c.body, "body", "`FILE` with the body of a check, - for standard input"})
	if name == "reset" {
		texts(flags, textFlag{&c.why, "why", "`REASON` for the audit trail, if the service has records"})
	}
	return flags
}

func adminFlags(name string) func() []FlagGroup {
	return func() []FlagGroup { return OneGroup(new(adminCall).flagSet(name)) }
}

func keyFlags(name string) func() []FlagGroup {
	return func() []FlagGroup { return OneGroup(new(adminCall).keyFlags(name)) }
}

// progress returns the output for the progress of a command.
func (c *adminCall) progress(s Streams) io.Writer {
	if c.json {
		return io.Discard
	}
	return s.Err
}

// maxAnswer is the most bytes read from a response body.
const maxAnswer = 64 << 20

// adminTimeout is the time limit of a request to the admin API.
const adminTimeout = 30 * time.Second

// call is a request to the admin API.
type call struct {
	method, path string
	body         io.Reader         // nil for none
	header       map[string]string // empty values are left out
	timeout      time.Duration
}

// reply is a response of the service, whose body the caller reads before done.
type reply struct {
	status int
	body   io.Reader
	done   func()
}

// open sends a request to the service and returns the response.
func (c *adminCall) open(ctx context.Context, q call) (*reply, error) {
	to, err := c.target()
	if err != nil {
		return nil, err
	}
	token, err := c.bearer()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	r, err := http.NewRequestWithContext(ctx, q.method, to.Base+q.path, q.body)
	if err != nil {
		cancel()
		return nil, Usage("--admin: "+to.name+" is not an address", "write host:port, https://host:port or unix:PATH")
	}
	for name, value := range q.header {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := to.Client().Do(r) //nolint:bodyclose // done closes it
	if err != nil {
		cancel()
		return nil, to.unreachable(err)
	}
	done := func() {
		_ = answer.Body.Close() // it was read, or is not wanted
		cancel()
	}
	return &reply{answer.StatusCode, answer.Body, done}, nil
}

// read sends a request and returns the status and the body of the response.
func (c *adminCall) read(ctx context.Context, q call) (int, []byte, error) {
	answer, err := c.open(ctx, q)
	if err != nil {
		return 0, nil, err
	}
	defer answer.done()
	text, err := io.ReadAll(http.MaxBytesReader(nil, io.NopCloser(answer.body), maxAnswer))
	if err != nil {
		return 0, nil, endedEarly(err)
	}
	return answer.status, text, nil
}

func endedEarly(err error) error {
	return Refuse("the service ended its answer early: "+err.Error(), "try again")
}

// ask asks for a path and returns the status and the body of the response.
func (c *adminCall) ask(ctx context.Context, path string) (int, []byte, error) {
	return c.read(ctx, call{method: http.MethodGet, path: path, timeout: adminTimeout})
}

// bearer returns the token to send; "" if there is none.
func (c *adminCall) bearer() (string, error) {
	file := c.tokenFile
	switch given := os.Getenv("STINT_ADMIN_TOKEN"); {
	case c.token != "":
		return c.token, nil
	case file == "" && given != "":
		return given, nil
	case file == "":
		file = os.Getenv("STINT_ADMIN_TOKEN_FILE")
	}
	if file == "" {
		return "", nil
	}
	token, err := os.ReadFile(file)
	if err != nil {
		return "", Refuse("cannot read the token: "+err.Error(), "name a file with the token")
	}
	return strings.TrimSpace(string(token)), nil
}

// get calls ask, and returns an error for any status but 200.
func (c *adminCall) get(ctx context.Context, path string) ([]byte, error) {
	status, text, err := c.ask(ctx, path)
	if err != nil || status == http.StatusOK {
		return text, err
	}
	return nil, refused(status, text)
}

// refused returns the error for a response with an error status.
func refused(status int, text []byte) error {
	var e struct {
		Error struct{ Message string } `json:"error"`
	}
	if err := json.Unmarshal(text, &e); err != nil || e.Error.Message == "" {
		hint := "is this the --admin address of a Stint?"
		if bytes.Contains(text, []byte("HTTP request to an HTTPS server")) { // error text of net/http
			hint = "it uses TLS: write https://HOST:PORT, or give --admin-ca FILE"
		}
		return Refuse(fmt.Sprintf("the service answered %d %s", status, http.StatusText(status)), hint)
	}
	problem, hint, _ := strings.Cut(e.Error.Message, "; ")
	problem = strings.Replace(problem, "X-Stint-Why:", "--why:", 1)
	if status == http.StatusUnauthorized {
		hint = "give --admin-token-file FILE, or STINT_ADMIN_TOKEN in the environment"
	}
	return Refuse(fmt.Sprintf("the service answered %d: %s", status, problem), hint)
}

// checkBody is the JSON body of a check.
type checkBody struct {
	Domain      string       `json:"domain"`
	Descriptors []descriptor `json:"descriptors"`
	Cost        uint32       `json:"cost,omitempty"`
}

type descriptor struct {
	Entries []entry `json:"entries"`
}

type entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// question returns the request body of a command about a key.
func (c *adminCall) question(s Streams, args []string) ([]byte, error) {
	switch {
	case c.body != "" && (len(args) > 0 || c.domain != ""):
		return nil, Usage("--body is given together with KEY=VALUE or --domain", "give only one of them")
	case c.body != "":
		text, err := s.read(c.body, maxAnswer)
		if err != nil {
			return nil, Refuse("cannot read the body: "+err.Error(), "name a file, or - for standard input")
		}
		return text, nil
	case len(args) == 0 || c.domain == "":
		return nil, Usage("a domain and a KEY=VALUE are needed", "write for example --domain api user=42, or --body FILE")
	}
	d := descriptor{}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" {
			return nil, Usage(fmt.Sprintf("%q is not KEY=VALUE", arg), "write for example user=42; user= for an empty value")
		}
		d.Entries = append(d.Entries, entry{key, value})
	}
	return json.Marshal(checkBody{c.domain, []descriptor{d}, c.cost})
}

// noArguments returns an error if any argument follows the flags.
func noArguments(flags *pflag.FlagSet) error {
	if flags.NArg() > 0 {
		return Usage(flags.Name()+" takes flags only, not "+flags.Arg(0), "see stint help "+flags.Name())
	}
	return nil
}
