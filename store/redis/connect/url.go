package connect

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Default ports.
const (
	serverPort   = "6379"
	sentinelPort = "26379"
)

// dialTimeout is how long one attempt to connect may take.
const dialTimeout = 2 * time.Second

// buffer is the size of the read and write buffers of a connection, in bytes.
const buffer = 64 << 10

// MaxPartitions is the largest number of partitions of a Cluster.
const MaxPartitions = 4096

// URLError is an error about a URL or its parameters. It contains no password.
type URLError struct {
	Problem string // what is wrong
	Hint    string // what to do
}

// Error returns the problem, without the hint.
func (e *URLError) Error() string { return "redis: " + e.Problem }

// ParseURL turns a URL, as redis.Open describes it, into the options of the client. The error is a
// *URLError.
func ParseURL(text string) (rueidis.ClientOption, error) {
	target := rueidis.ClientOption{
		// The client caches nothing and repeats no command.
		DisableCache: true, DisableRetry: true,
		ReadBufferEachConn: buffer, WriteBufferEachConn: buffer,
		Dialer: net.Dialer{Timeout: dialTimeout},
		// After a second without an answer the client sends PING, and closes the connection if it
		// has no answer for this long.
		ConnWriteTimeout: dialTimeout,
		// One connection is enough: few groups are in flight at a time, and their commands share
		// it.
		PipelineMultiplex: -1, RingScaleEachConn: 8,
	}
	u, err := url.Parse(text)
	if err != nil {
		return target, &URLError{Problem: "the URL cannot be read", Hint: "write redis://USER:PASSWORD@HOST:PORT/DB; escape special characters of a password, such as %2F for a slash"}
	}
	scheme, form, _ := strings.Cut(u.Scheme, "+")
	encrypted := scheme == "rediss" || scheme == "valkeys"
	known := form == "" || form == "sentinel" || form == "cluster" || form == "unix" && !encrypted
	if !encrypted && scheme != "redis" && scheme != "valkey" || !known {
		return target, &URLError{Problem: fmt.Sprintf("unknown kind of URL %q", u.Scheme), Hint: "known are redis, rediss, redis+sentinel, rediss+sentinel, redis+cluster, rediss+cluster, redis+unix, and the same with valkey"}
	}
	if strings.Contains(text, "#") {
		return target, &URLError{Problem: "a # in the URL", Hint: "escape it: write %23"}
	}
	if u.User != nil {
		target.Username = u.User.Username()
		target.Password, _ = u.User.Password()
	}
	if form == "unix" {
		return target, setSocket(&target, u)
	}
	port := serverPort
	if form == "sentinel" {
		port = sentinelPort
	}
	if target.InitAddress, err = addresses(u.Host, port); err != nil {
		return target, err
	}
	if form == "" && len(target.InitAddress) > 1 {
		return target, &URLError{Problem: "several servers in one URL", Hint: "use redis+cluster:// for the nodes of a Cluster, redis+sentinel:// for Sentinels"}
	}
	target.ForceSingleClient = form == ""
	// Poll, as a primary that hangs does not announce which server replaced it.
	target.ClusterOption.ShardsRefreshInterval = time.Second
	if err := setDatabase(&target, u.Path, form); err != nil {
		return target, err
	}
	if encrypted {
		target.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return target, setParameters(&target, u.RawQuery, form)
}

// setSocket uses the path of a URL as a Unix socket.
func setSocket(target *rueidis.ClientOption, u *url.URL) error {
	if u.Host != "" || len(u.Path) < 2 {
		return &URLError{Problem: "a URL of a socket without its path", Hint: "write redis+unix:///PATH, with three slashes"}
	}
	target.InitAddress = []string{u.Path}
	target.ForceSingleClient = true
	target.DialCtxFn = func(ctx context.Context, path string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return dialer.DialContext(ctx, "unix", path)
	}
	return setParameters(target, u.RawQuery, "unix")
}

// addresses parses a list of hosts with and without ports.
func addresses(hosts, port string) ([]string, error) {
	var list []string
	for host := range strings.SplitSeq(hosts, ",") {
		name, p, err := net.SplitHostPort(host)
		if err != nil {
			name, p = strings.Trim(host, "[]"), port
		}
		if name == "" {
			return nil, &URLError{Problem: "a URL without a host", Hint: "write redis://HOST:PORT"}
		}
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return nil, &URLError{Problem: fmt.Sprintf("%q is not a port", p), Hint: "write redis://HOST:PORT, with a PORT from 1 to 65535"}
		}
		list = append(list, net.JoinHostPort(name, p))
	}
	return list, nil
}

// setDatabase parses the number of the database from the path.
func setDatabase(target *rueidis.ClientOption, path, form string) error {
	path = strings.Trim(path, "/")
	if path == "" {
		return nil
	}
	n, err := strconv.Atoi(path)
	if err != nil || n < 0 {
		return &URLError{Problem: fmt.Sprintf("%q is not the number of a database", path), Hint: "write redis://HOST:PORT/0"}
	}
	if form == "cluster" && n != 0 {
		return &URLError{Problem: "a Cluster has database 0 only", Hint: "leave the number out and use a namespace of your own"}
	}
	target.SelectDB = n
	return nil
}

// setParameters parses the parameters after the question mark.
func setParameters(target *rueidis.ClientOption, query, form string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return &URLError{Problem: "the parameters of the URL cannot be read", Hint: "write them as ?NAME=VALUE&NAME=VALUE"}
	}
	for name, value := range values {
		switch {
		case (name == "password_file" || name == "password_command") && target.AuthCredentialsFn != nil:
			return &URLError{Problem: "both password_file and password_command in the URL", Hint: "keep one of the two"}
		case name == "password_file":
			target.AuthCredentialsFn = credentials(target.Username, fromFile(value[0]))
		case name == "password_command":
			target.AuthCredentialsFn = credentials(target.Username, fromCommand(value[0]))
		case encryption[name]: // see setEncryption
		case form == "unix" && name == "db":
			if err := setDatabase(target, value[0], form); err != nil {
				return err
			}
		case form == "cluster" && name == "partitions":
			if _, err := partitionsIn(values); err != nil {
				return err
			}
		case form == "sentinel" && name == "master":
			target.Sentinel.MasterSet = value[0]
		case form == "sentinel" && name == "sentinel_user":
			target.Sentinel.Username = value[0]
		case form == "sentinel" && name == "sentinel_password":
			target.Sentinel.Password = value[0]
		default:
			return &URLError{Problem: fmt.Sprintf("unknown parameter %q of the URL", name), Hint: "known are password_file, password_command, with rediss:// ca, cert, key and verify, with redis+unix:// db, with redis+sentinel:// master, sentinel_user and sentinel_password, and with redis+cluster:// partitions"}
		}
	}
	if err := setEncryption(target.TLSConfig, values); err != nil {
		return err
	}
	if form == "sentinel" {
		if target.Sentinel.MasterSet == "" {
			return &URLError{Problem: "a Sentinel URL without the name of the primary", Hint: "add ?master=NAME, as the Sentinels know it"}
		}
		target.Sentinel.Dialer, target.Sentinel.TLSConfig = target.Dialer, target.TLSConfig
		// Poll, as a demoted primary goes on running, and the message about it can be lost.
		target.Sentinel.TopologyRefreshInterval = time.Second
	}
	return nil
}

// partitionsIn returns the number of partitions in the parameters; 0 if they have none.
func partitionsIn(values url.Values) (int, error) {
	text := values.Get("partitions")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxPartitions {
		return 0, &URLError{Problem: fmt.Sprintf("partitions=%s", text), Hint: fmt.Sprintf("choose 1 to %d, the same on all nodes", MaxPartitions)}
	}
	return n, nil
}

// IsURL reports whether a text has the scheme of a URL for redis.Open.
func IsURL(text string) bool {
	scheme, _, ok := strings.Cut(text, "://")
	scheme, _, _ = strings.Cut(scheme, "+")
	return ok && (scheme == "redis" || scheme == "rediss" || scheme == "valkey" || scheme == "valkeys")
}

// FormOfURL returns the form of a URL: "sentinel", "cluster", "unix", or "" for single servers.
func FormOfURL(text string) string {
	scheme, _, _ := strings.Cut(text, "://")
	_, form, _ := strings.Cut(scheme, "+")
	return strings.ToLower(form)
}

// PartitionsOfURL returns the number of partitions in a URL that ParseURL accepted, 0 if it has
// none. cluster is false if the URL is not of a Cluster.
func PartitionsOfURL(text string) (n int, cluster bool) {
	u, err := url.Parse(text)
	if err != nil || FormOfURL(text) != "cluster" {
		return 0, false
	}
	n, err = partitionsIn(u.Query())
	return n, err == nil
}

// CheckPartitions returns an error if n is not allowed as a number of partitions.
func CheckPartitions(n int) error {
	if n < 1 || n > MaxPartitions {
		return &URLError{Problem: fmt.Sprintf("%d partitions", n), Hint: fmt.Sprintf("choose 1 to %d, the same on all nodes", MaxPartitions)}
	}
	return nil
}

// RedactURL returns the URL without its passwords, for logs.
func RedactURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "redis"
	}
	u.RawQuery = ""
	return u.Redacted()
}
