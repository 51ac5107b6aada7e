package memcached

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"stint/internal/text"
	"stint/store/memcached/meta"
)

// serverPort is the port of a URL that names none.
const serverPort = "11211"

// ConfigError is an error about a URL or Options. It contains no password.
type ConfigError struct {
	Problem string // what is wrong
	Hint    string // what to do
}

// Error returns the problem, without the hint.
func (e *ConfigError) Error() string { return "memcached: " + e.Problem }

// Server is one of the servers of a URL.
type Server struct {
	Name string // HOST:PORT, or the path of a socket: the same on all nodes
	URL  string // the URL of this server alone, for Open
}

// IsURL reports whether a text has the scheme of a URL for Open.
func IsURL(text string) bool {
	scheme, _, ok := strings.Cut(text, "://")
	return ok && (scheme == "memcached" || scheme == "memcacheds" || scheme == "memcached+unix")
}

// Servers returns the servers of a URL, in its order:
//
//	memcached://HOST:PORT,HOST:PORT    independent servers, each of which has some of the keys (see
//	                                   package servers)
//
// User and parameters apply to all hosts. The error is a [*ConfigError].
func Servers(text string) (list []Server, err error) {
	scheme, rest, _ := strings.Cut(text, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	at := strings.LastIndexByte(rest[:end], '@') + 1
	for host := range strings.SplitSeq(rest[at:end], ",") {
		one := Server{URL: scheme + "://" + rest[:at] + strings.TrimSpace(host) + rest[end:]}
		options, err := parseURL(one.URL)
		if err != nil {
			return nil, err
		}
		one.Name = strings.ToLower(options.Address)
		if slices.ContainsFunc(list, func(s Server) bool { return s.Name == one.Name }) {
			return nil, &ConfigError{Problem: fmt.Sprintf("server %s is named twice", one.Name), Hint: "name each server once"}
		}
		list = append(list, one)
	}
	return list, nil
}

// RedactURL returns the URL without its passwords, for logs.
func RedactURL(text string) string {
	list, err := Servers(text)
	if err != nil {
		return "memcached"
	}
	names := make([]string, len(list))
	for i, one := range list {
		names[i] = one.Name
	}
	scheme, _, _ := strings.Cut(text, "://")
	return scheme + "://" + strings.Join(names, ",")
}

// Open returns a store on the server of a URL. It does not connect; Ping does. The error is a
// [*ConfigError].
//
//	memcached://USER:PASSWORD@HOST:PORT   all but HOST is optional
//	memcached+unix:///PATH                by its Unix socket
//
// memcacheds instead of memcached encrypts the connection. Parameters after the question mark:
//
//	password_file=PATH    the first line of a file is the password, read for each new connection
//	ca=PATH               PEM certificates that may sign the server's
//	cert=PATH, key=PATH   the client certificate and its key, read for each connection
func Open(url string, options Options) (*Store, error) {
	if options.Namespace == "" {
		options.Namespace = DefaultNamespace
	}
	if err := CheckNamespace(options.Namespace); err != nil {
		return nil, err
	}
	client, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	if client.Connections = options.Connections; options.Clock == nil {
		options.Clock = time.Now
	}
	return &Store{namespace: options.Namespace, address: client.Address, clock: options.Clock, client: meta.New(client), queues: map[string]*queue{}}, nil
}

// CheckNamespace returns an error if name is not allowed as a namespace.
func CheckNamespace(name string) error {
	if problem, hint := text.CheckNamespace(name); problem != "" {
		return &ConfigError{Problem: problem, Hint: hint}
	}
	return nil
}

// parseURL returns the options of a client for the URL of one server.
func parseURL(text string) (o meta.Options, err error) {
	u, err := url.Parse(text)
	if err != nil || strings.Contains(text, "#") {
		return o, &ConfigError{Problem: "the URL cannot be read", Hint: "write memcached://USER:PASSWORD@HOST:PORT, and escape special characters of a password, such as %2F for a slash"}
	}
	switch {
	case !IsURL(text):
		return o, &ConfigError{Problem: fmt.Sprintf("unknown kind of URL %q", u.Scheme), Hint: "known are memcached, memcacheds and memcached+unix"}
	case u.Scheme == "memcached+unix":
		if o.Network, o.Address = "unix", u.Path; u.Host != "" || len(u.Path) < 2 {
			return o, &ConfigError{Problem: "a URL of a socket without its path", Hint: "write memcached+unix:///PATH, with three slashes"}
		}
	default:
		if o.Network = "tcp"; u.Hostname() == "" || strings.Trim(u.Path, "/") != "" {
			return o, &ConfigError{Problem: "a URL without a host, or with a path", Hint: "write memcached://HOST:PORT"}
		}
		port := u.Port()
		if port == "" {
			port = serverPort
		}
		o.Address = net.JoinHostPort(u.Hostname(), port)
	}
	if u.Scheme == "memcacheds" {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}
	}
	return o, setParameters(&o, u)
}

// setParameters reads the user, and the parameters after the question mark.
func setParameters(o *meta.Options, u *url.URL) error {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return &ConfigError{Problem: "the parameters of the URL cannot be read", Hint: "write them as ?NAME=VALUE&NAME=VALUE"}
	}
	for name := range values {
		if !slices.Contains([]string{"password_file", "ca", "cert", "key"}, name) {
			return &ConfigError{Problem: fmt.Sprintf("unknown parameter %q of the URL", name), Hint: "known are password_file, and with memcacheds:// ca, cert and key"}
		}
	}
	if user := u.User.Username(); user != "" {
		password, _ := u.User.Password()
		file := values.Get("password_file")
		o.Login = func() (string, string, error) {
			if file == "" {
				return user, password, nil
			}
			text, err := os.ReadFile(file)
			line, _, _ := strings.Cut(string(text), "\n")
			return user, strings.TrimRight(line, "\r"), err
		}
	} else if values.Has("password_file") || u.User != nil {
		return &ConfigError{Problem: "a password without a user", Hint: "write memcached://USER@HOST:PORT: memcached's file of -Y has USER:PASSWORD"}
	}
	return setCertificates(o.TLS, values.Get("ca"), values.Get("cert"), values.Get("key"))
}

// setCertificates reads the certificates of a URL into config, which is nil if it is not encrypted.
func setCertificates(config *tls.Config, ca, cert, key string) error {
	switch {
	case ca+cert+key == "":
		return nil
	case config == nil:
		return &ConfigError{Problem: "certificates for a connection that is not encrypted", Hint: "write memcacheds://, or leave ca, cert and key out"}
	case (cert == "") != (key == ""):
		return &ConfigError{Problem: "only one of cert and key", Hint: "give the client certificate and its key"}
	}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		config.RootCAs = x509.NewCertPool()
		if err != nil || !config.RootCAs.AppendCertsFromPEM(pem) {
			return &ConfigError{Problem: "no certificates in " + ca, Hint: "check the path behind ca=, a file of certificates as PEM"}
		}
	}
	if cert != "" {
		read := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cert, key)
			return &pair, err
		}
		if _, err := read(nil); err != nil {
			return &ConfigError{Problem: "the client certificate cannot be used: " + err.Error(), Hint: "check the paths behind cert= and key=, both PEM"}
		}
		config.GetClientCertificate = read
	}
	return nil
}
