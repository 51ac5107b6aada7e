package resp

// command is a command of the protocol.
type command struct {
	name string // as in errors

	// args is how many arguments it has, with its name; -n: at least n.
	args  int
	early bool // before AUTH too
	do    func(c *conn, args [][]byte)

	// later adds the command to a batch, if that is possible; nil: it never is.
	later func(c *conn, args [][]byte) bool

	// decide is set instead of do for a command that depends on nothing of the connection, so that
	// several can be decided at the same time.
	decide func(d *desk, args [][]byte)
}

// commands are all commands by their names in capital letters. It is filled once, since some of them
// list it.
var commands map[string]*command

func init() {
	commands = map[string]*command{
		"CL.THROTTLE":   {name: "cl.throttle", args: -1, decide: (*desk).throttle, later: (*conn).later},
		"STINT.CHECK":   {name: "stint.check", args: -5, decide: (*desk).check, later: func(c *conn, args [][]byte) bool { return c.laterCheck(args, false) }},
		"STINT.PEEK":    {name: "stint.peek", args: -5, decide: (*desk).peek, later: func(c *conn, args [][]byte) bool { return c.laterCheck(args, true) }},
		"STINT.MCHECK":  {name: "stint.mcheck", args: -6, decide: (*desk).checkMany},
		"STINT.INSPECT": {name: "stint.inspect", args: -5, do: (*conn).inspect},
		"STINT.RESET":   {name: "stint.reset", args: -5, do: (*conn).resetLimits},
		"DEL":           {name: "del", args: -2, do: (*conn).del},
		"UNLINK":        {name: "unlink", args: -2, do: (*conn).del},
		"EXISTS":        {name: "exists", args: -2, do: (*conn).exists},
		"TTL":           {name: "ttl", args: 2, do: (*conn).ttl},
		"PTTL":          {name: "pttl", args: 2, do: (*conn).pttl},

		"AUTH":   {name: "auth", args: -2, early: true, do: (*conn).auth},
		"HELLO":  {name: "hello", args: -1, early: true, do: (*conn).hello},
		"QUIT":   {name: "quit", args: -1, early: true, do: (*conn).quit},
		"RESET":  {name: "reset", args: 1, early: true, do: (*conn).resetConn},
		"PING":   {name: "ping", args: -1, do: (*conn).ping},
		"ECHO":   {name: "echo", args: 2, do: func(c *conn, args [][]byte) { c.out.text(string(args[1])) }},
		"SELECT": {name: "select", args: 2, do: (*conn).selectDB},
		"CLIENT": {name: "client", args: -2, do: (*conn).client},

		"COMMAND":  {name: "command", args: -1, do: (*conn).command},
		"CONFIG":   {name: "config", args: -2, do: (*conn).config},
		"INFO":     {name: "info", args: -1, do: (*conn).info},
		"CLUSTER":  {name: "cluster", args: -2, do: func(c *conn, _ [][]byte) { c.out.fail("ERR This instance has cluster support disabled") }},
		"READONLY": {name: "readonly", args: 1, do: func(c *conn, _ [][]byte) { c.out.fail("ERR This instance has cluster support disabled") }},
		"MULTI":    {name: "multi", args: -1, do: (*conn).multi},
		"EXEC":     {name: "exec", args: -1, do: (*conn).multi},
		"DISCARD":  {name: "discard", args: -1, do: (*conn).multi},
		"WATCH":    {name: "watch", args: -1, do: (*conn).multi},
		"UNWATCH":  {name: "unwatch", args: -1, do: (*conn).multi},
	}
}

// multi refuses transactions.
func (c *conn) multi([][]byte) {
	c.out.fail("ERR transactions are not supported: STINT.MCHECK decides several descriptors as one")
}
