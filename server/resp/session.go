package resp

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"stint/internal/system"
)

// redisVersion is the version of Redis whose protocol the server speaks. Clients read it to know what
// they may send.
const redisVersion = "7.2.0"

func (c *conn) ok() { c.out.simple("OK") }

func (c *conn) ping(args [][]byte) {
	switch len(args) {
	case 1:
		c.out.simple("PONG")
	case 2:
		c.out.text(string(args[1]))
	default:
		c.out.fail("ERR wrong number of arguments for 'ping' command")
	}
}

func (c *conn) quit([][]byte) {
	c.ok()
	c.closed = true
}

// resetConn makes the connection as new.
func (c *conn) resetConn([][]byte) {
	c.out.version, c.name = 2, ""
	c.in.known, c.hasRole, c.began = c.server.open(), false, time.Time{}
	c.out.simple("RESET")
}

// auth is AUTH [user] token. The user has no meaning.
func (c *conn) auth(args [][]byte) {
	if len(args) > 3 {
		c.out.fail("ERR syntax error")
		return
	}
	if c.identify(args[len(args)-1]) {
		c.ok()
	}
}

// identify takes a token of the client. If it is wrong it answers that and returns false.
func (c *conn) identify(token []byte) bool {
	s := c.server
	if s.open() && len(s.options.Lists) == 0 {
		c.out.fail("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
		return false
	}
	if !c.is(string(token)) {
		s.misuse.Report(c.peer, "AUTH with a wrong token", "give the client the token of --resp-token-file, or of a caller of --admin-access")
		c.out.fail("WRONGPASS invalid username-password pair or user is disabled.")
		c.slow()
		return false
	}
	c.in.known = true
	return true
}

// is makes the caller of a token that of the connection. It reports whether there is one.
func (c *conn) is(token string) bool {
	who, list, ok := c.server.caller(token)
	if ok {
		c.caller, c.list, c.hasRole, c.token = who, list, list.in != nil, token
	}
	return ok
}

// identifyAgain looks the caller up in a list that has changed. Whoever is not in it any more has to
// send AUTH again.
func (c *conn) identifyAgain() {
	if !c.is(c.token) {
		c.in.known, c.hasRole, c.began = c.server.open(), false, time.Time{}
	}
}

const (
	// mostTries is how many wrong tokens a connection may send, and tryPause how long each of them takes.
	// Otherwise one connection could try two million tokens in a second.
	mostTries = 3
	tryPause  = 250 * time.Millisecond
)

// slow makes a wrong token take its time, and ends the connection after some.
func (c *conn) slow() {
	system.Wait(c.server.ctx, tryPause)
	c.tries++
	c.closed = c.closed || c.tries == mostTries
}

// hello is HELLO [version [AUTH user token] [SETNAME name]].
func (c *conn) hello(args [][]byte) {
	version := c.out.version
	if len(args) > 1 {
		n, valid := parseInt(args[1])
		if !valid {
			c.out.fail("ERR Protocol version is not an integer or out of range")
			return
		}
		if n != 2 && n != 3 {
			c.out.fail("NOPROTO unsupported protocol version")
			return
		}
		version = int(n)
	}
	var token, name []byte
	for i := 2; i < len(args); {
		switch {
		case equal(args[i], "AUTH") && i+2 < len(args):
			token = args[i+2]
			i += 3
		case equal(args[i], "SETNAME") && i+1 < len(args):
			name = args[i+1]
			i += 2
		default:
			c.out.fail(fmt.Sprintf("ERR Syntax error in HELLO option '%s'", cut(args[i])))
			return
		}
	}
	if token != nil && !c.identify(token) {
		return
	}
	if !c.in.known {
		c.out.fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	if name != nil && !c.setName(name) {
		return
	}
	c.out.version = version
	c.out.object(7)
	for _, field := range [...][2]string{{"server", "redis"}, {"version", redisVersion}} {
		c.out.text(field[0])
		c.out.text(field[1])
	}
	c.out.text("proto")
	c.out.number(int64(version))
	c.out.text("id")
	c.out.number(c.id)
	for _, field := range [...][2]string{{"mode", "standalone"}, {"role", "master"}} {
		c.out.text(field[0])
		c.out.text(field[1])
	}
	c.out.text("modules")
	c.out.array(0)
}

// setName names the connection, or answers why it cannot.
func (c *conn) setName(name []byte) bool {
	if len(name) > maxName {
		c.out.fail(fmt.Sprintf("ERR Client names cannot be longer than %d bytes.", maxName))
		return false
	}
	for _, b := range name {
		if b < '!' || b > '~' {
			c.out.fail("ERR Client names cannot contain spaces, newlines or special characters.")
			return false
		}
	}
	c.name = string(name)
	return true
}

// selectDB accepts the one database that there is.
func (c *conn) selectDB(args [][]byte) {
	n, valid := parseInt(args[1])
	switch {
	case !valid:
		c.out.fail("ERR value is not an integer or out of range")
	case n != 0:
		c.out.fail("ERR DB index is out of range")
	default:
		c.ok()
	}
}

// client is CLIENT with what clients send when they connect.
func (c *conn) client(args [][]byte) {
	sub := strings.ToUpper(cut(args[1]))
	switch {
	case sub == "SETNAME" && len(args) == 3:
		if c.setName(args[2]) {
			c.ok()
		}
	case sub == "GETNAME" && len(args) == 2 && c.name == "":
		c.out.null()
	case sub == "GETNAME" && len(args) == 2:
		c.out.text(c.name)
	case sub == "ID" && len(args) == 2:
		c.out.number(c.id)
	case (sub == "INFO" || sub == "LIST") && len(args) == 2:
		c.out.text(fmt.Sprintf("id=%d addr=%s laddr=%s name=%s db=0 resp=%d\n", c.id, c.net.RemoteAddr(), c.net.LocalAddr(), c.name, c.out.version))
	case sub == "SETINFO" && len(args) == 4, sub == "NO-EVICT" && len(args) == 3, sub == "NO-TOUCH" && len(args) == 3,
		sub == "TRACKING" && len(args) >= 3, sub == "CACHING" && len(args) == 3:
		c.ok() // no value here can be cached, so there is nothing to track
	case slices.Contains([]string{"SETNAME", "GETNAME", "ID", "INFO", "LIST", "SETINFO", "NO-EVICT", "NO-TOUCH", "TRACKING", "CACHING"}, sub):
		c.out.fail("ERR wrong number of arguments for 'client|" + strings.ToLower(sub) + "' command")
	default:
		c.out.fail("ERR unknown subcommand '" + cut(args[1]) + "'. Try CLIENT HELP.")
	}
}

// command is COMMAND [COUNT | LIST | DOCS [name ...] | INFO [name ...]].
func (c *conn) command(args [][]byte) {
	names := make([]string, 0, len(commands))
	for _, cmd := range commands {
		names = append(names, cmd.name)
	}
	slices.Sort(names)
	sub := "INFO"
	if len(args) > 1 {
		sub = strings.ToUpper(cut(args[1]))
	}
	if len(args) > 2 && (sub == "INFO" || sub == "DOCS") {
		if len(args)-2 > maxNames {
			c.out.fail(fmt.Sprintf("ERR COMMAND %s has more than %d names", sub, maxNames))
			return
		}
		names = names[:0]
		for _, a := range args[2:] {
			names = append(names, strings.ToLower(cut(a)))
		}
	}
	switch sub {
	case "COUNT":
		c.out.number(int64(len(commands)))
	case "LIST":
		c.out.array(len(names))
		for _, n := range names {
			c.out.text(n)
		}
	case "DOCS":
		names = slices.DeleteFunc(names, func(n string) bool { return commands[strings.ToUpper(n)] == nil })
		c.out.object(len(names))
		for _, n := range names {
			c.out.text(n)
			c.out.object(0)
		}
	case "INFO":
		c.out.array(len(names))
		for _, n := range names {
			c.describe(n)
		}
	default:
		c.out.fail("ERR unknown subcommand '" + cut(args[1]) + "'. Try COMMAND HELP.")
	}
}

// describe appends what COMMAND INFO says of a command.
func (c *conn) describe(name string) {
	cmd := commands[strings.ToUpper(name)]
	if cmd == nil {
		c.out.null()
		return
	}
	first := int64(0)
	if slices.Contains([]string{"cl.throttle", "del", "unlink", "exists", "ttl", "pttl"}, name) {
		first = 1
	}
	c.out.array(6)
	c.out.text(name)
	c.out.number(int64(cmd.args))
	c.out.array(1)
	c.out.simple("fast")
	c.out.number(first)
	c.out.number(first)
	c.out.number(first)
}

// config answers CONFIG GET, for what redis-benchmark asks: nothing is kept in files here.
func (c *conn) config(args [][]byte) {
	if !equal(args[1], "GET") || len(args) != 3 {
		c.out.fail("ERR CONFIG changes nothing here: Stint has a configuration of its own")
		return
	}
	values := map[string]string{"save": "", "appendonly": "no"}
	name := strings.ToLower(cut(args[2]))
	value, there := values[name]
	if !there {
		c.out.object(0)
		return
	}
	c.out.object(1)
	c.out.text(name)
	c.out.text(value)
}

// info is INFO, with what clients read.
func (c *conn) info([][]byte) {
	c.out.text("# Server\r\nredis_version:" + redisVersion + "\r\nredis_mode:standalone\r\nstint_version:" + c.server.options.Version +
		"\r\nserver_time_usec:" + fmt.Sprint(time.Now().UnixMicro()) + "\r\n# Persistence\r\nloading:0\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n# Cluster\r\ncluster_enabled:0\r\n")
}

// equal reports whether b is a word in any case.
func equal(b []byte, word string) bool {
	return len(b) == len(word) && strings.EqualFold(string(b), word)
}
