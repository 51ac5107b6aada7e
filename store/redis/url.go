package redis

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

// Ports where a URL is silent.
const (
	serverPort   = "6379"
	sentinelPort = "26379"
)

// dialTimeout is how long one attempt to connect may take.
const dialTimeout = 2 * time.Second

// buffer is how many bytes are read and written at once.
const buffer = 64 << 10

// parseURL turns a URL, as Open describes it, into what the client wants to know.
func parseURL(text string) (rueidis.ClientOption, error) {
	target := rueidis.ClientOption{
		// Nothing is cached on this side, and nothing is asked twice by itself.
		DisableCache: true, DisableRetry: true,
		ReadBufferEachConn: buffer, WriteBufferEachConn: buffer,
		Dialer: net.Dialer{Timeout: dialTimeout},
		// One group is on its way at a time, see committer: one connection will do, and
		// few commands wait for their answers, at most one of each partition.
		PipelineMultiplex: -1, RingScaleEachConn: 8,
	}
	u, err := url.Parse(text)
	if err != nil {
		return target, &ConfigError{Problem: "the URL cannot be read", Hint: "write redis://USER:PASSWORD@HOST:PORT/DB; escape special characters of a password, such as %2F for a slash"}
	}
	scheme, form, _ := strings.Cut(u.Scheme, "+")
	encrypted := scheme == "rediss" || scheme == "valkeys"
	known := form == "" || form == "sentinel" || form == "cluster" || form == "unix" && !encrypted
	if !encrypted && scheme != "redis" && scheme != "valkey" || !known {
		return target, &ConfigError{Problem: fmt.Sprintf("unknown kind of URL %q", u.Scheme), Hint: "known are redis, rediss, redis+sentinel, rediss+sentinel, redis+cluster, rediss+cluster, redis+unix, and the same with valkey"}
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
		return target, &ConfigError{Problem: "several servers in one URL", Hint: "use redis+cluster:// for the nodes of a Cluster, redis+sentinel:// for Sentinels"}
	}
	target.ForceSingleClient = form == ""
	// A primary that hangs says nothing of who took its place.
	target.ClusterOption.ShardsRefreshInterval = time.Second
	if err := setDatabase(&target, u.Path, form); err != nil {
		return target, err
	}
	if encrypted {
		target.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return target, setParameters(&target, u.RawQuery, form)
}

// setSocket makes the path of a URL that of a Unix socket.
func setSocket(target *rueidis.ClientOption, u *url.URL) error {
	if u.Host != "" || len(u.Path) < 2 {
		return &ConfigError{Problem: "a URL of a socket without its path", Hint: "write redis+unix:///PATH, with three slashes"}
	}
	target.InitAddress = []string{u.Path}
	target.ForceSingleClient = true
	target.DialCtxFn = func(ctx context.Context, path string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return dialer.DialContext(ctx, "unix", path)
	}
	return setParameters(target, u.RawQuery, "unix")
}

// addresses reads a list of hosts with and without ports.
func addresses(hosts, port string) ([]string, error) {
	var list []string
	for host := range strings.SplitSeq(hosts, ",") {
		name, p, err := net.SplitHostPort(host)
		if err != nil {
			name, p = strings.Trim(host, "[]"), port
		}
		if name == "" {
			return nil, &ConfigError{Problem: "a URL without a host", Hint: "write redis://HOST:PORT"}
		}
		list = append(list, net.JoinHostPort(name, p))
	}
	return list, nil
}

// setDatabase reads the number of the database from the path.
func setDatabase(target *rueidis.ClientOption, path, form string) error {
	path = strings.Trim(path, "/")
	if path == "" {
		return nil
	}
	n, err := strconv.Atoi(path)
	if err != nil || n < 0 {
		return &ConfigError{Problem: fmt.Sprintf("%q is not the number of a database", path), Hint: "write redis://HOST:PORT/0"}
	}
	if form == "cluster" && n != 0 {
		return &ConfigError{Problem: "a Cluster has database 0 only", Hint: "leave the number out and use a namespace of your own"}
	}
	target.SelectDB = n
	return nil
}

// setParameters reads what stands behind the question mark.
func setParameters(target *rueidis.ClientOption, query, form string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return &ConfigError{Problem: "the parameters of the URL cannot be read", Hint: "write them as ?NAME=VALUE&NAME=VALUE"}
	}
	for name, value := range values {
		switch {
		case (name == "password_file" || name == "password_command") && target.AuthCredentialsFn != nil:
			return &ConfigError{Problem: "a password file beside a password command", Hint: "keep one of the two"}
		case name == "password_file":
			target.AuthCredentialsFn = credentials(target.Username, fromFile(value[0]))
		case name == "password_command":
			target.AuthCredentialsFn = credentials(target.Username, fromCommand(value[0]))
		case encryption[name]: // below
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
			return &ConfigError{Problem: fmt.Sprintf("unknown parameter %q of the URL", name), Hint: "known are password_file, password_command, with rediss:// ca, cert, key and verify, with redis+unix:// db, with redis+sentinel:// master, sentinel_user and sentinel_password, and with redis+cluster:// partitions"}
		}
	}
	if err := setEncryption(target.TLSConfig, values); err != nil {
		return err
	}
	if form == "sentinel" {
		if target.Sentinel.MasterSet == "" {
			return &ConfigError{Problem: "Sentinels without the name of the primary", Hint: "add ?master=NAME, as the Sentinels know it"}
		}
		target.Sentinel.Dialer, target.Sentinel.TLSConfig = target.Dialer, target.TLSConfig
		// A primary that was demoted stays alive, and the message that says so can be lost.
		target.Sentinel.TopologyRefreshInterval = time.Second
	}
	return nil
}

// partitionsIn returns how many partitions the parameters ask for; 0 where they are silent.
func partitionsIn(values url.Values) (int, error) {
	text := values.Get("partitions")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxPartitions {
		return 0, &ConfigError{Problem: fmt.Sprintf("partitions=%s", text), Hint: fmt.Sprintf("choose 1 to %d, the same on all nodes", MaxPartitions)}
	}
	return n, nil
}

// CheckURL says what is wrong with a URL for Open, nil for nothing. The error shows no
// password.
func CheckURL(text string) error {
	_, err := parseURL(text)
	return err
}

// IsURL says whether a text is meant to be a URL for Open.
func IsURL(text string) bool {
	scheme, _, ok := strings.Cut(text, "://")
	scheme, _, _ = strings.Cut(scheme, "+")
	return ok && (scheme == "redis" || scheme == "rediss" || scheme == "valkey" || scheme == "valkeys")
}

// divide returns how many partitions the keys are divided into where a URL, which has been
// checked, and options say so; 0 where it names no Cluster.
func divide(text string, options Options) (int, error) {
	u, err := url.Parse(text)
	if err != nil || !strings.HasSuffix(u.Scheme, "+cluster") {
		return 0, nil
	}
	n := options.Partitions
	if asked, err := partitionsIn(u.Query()); err != nil || asked > 0 {
		n = asked
	}
	if n == 0 {
		n = DefaultPartitions
	}
	if n < 1 || n > MaxPartitions {
		return 0, &ConfigError{Problem: fmt.Sprintf("%d partitions", n), Hint: fmt.Sprintf("choose 1 to %d, the same on all nodes", MaxPartitions)}
	}
	return n, nil
}

// Redact returns the URL without its passwords, for people to see.
func Redact(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "redis"
	}
	u.RawQuery = ""
	return u.Redacted()
}
