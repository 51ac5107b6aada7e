package settings

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"stint"
	"stint/chain/denycache"
	"stint/fleet/eventual"
	"stint/internal/config"
	"stint/internal/logging"
	"stint/internal/web"
	"stint/server/httpapi"
	"stint/store/memory"
	"stint/store/redis"
)

// Config says how to run the service. [DefaultConfig] returns the defaults, which
// are not the zero values: the zero Config opens no listener and can do nothing.
//
// Every field but Output is also a flag, an environment variable and a key of the
// config file under the name that its comment begins with; see [Config.Settings].
type Config struct {
	// Rules (rules) are files and folders of rules. They are read again when one of
	// them changes. None, the default: only limits that stand in a request are
	// decided, and every rule is unmatched.
	Rules []string

	// RulesFiles (rules-files) says which files of a folder of rules are such: yaml, the
	// default, for *.yaml and *.yml but for rule tests and names that begin with a dot;
	// visible for all but the latter; all for every file, as envoyproxy/ratelimit reads
	// them.
	RulesFiles string

	// Catalog (catalog) are files of rules per API, up to millions of them: CSV, JSON
	// Lines, or those of ratelimiter4j; see docs/catalog.md. They are read again when one
	// of them changes. None by default.
	Catalog []string

	// CatalogDB (catalog-db) is a file that keeps rules per API on disk, where /v1/rules
	// of the admin listener changes them while the service runs. It is made where there is
	// none, in a folder that must be there; one service at a time may use it. Empty, the
	// default: there is none. It cannot stand beside Catalog.
	CatalogDB string

	// CatalogDomain (catalog-domain) is the domain of rules per API that name none; api by
	// default.
	CatalogDomain string

	// CatalogFold (catalog-fold) are the words for spellings of a path that the servers
	// behind take for one, as in the http section of a rule file: case, trailing_slash,
	// escaped_slash, backslash, escapes, parameters, endings, dots_first. None by default.
	CatalogFold []string

	// RulesMerge (rules-merge) lets several files hold descriptors of one domain; off by
	// default: a domain that stands in two files is refused.
	RulesMerge bool

	// Unmatched (unmatched) is what happens to a request to which no limit applies: allow,
	// the default, lets it pass; deny refuses it, over every protocol. It is ignored with
	// EnvoyEnv, since envoyproxy/ratelimit lets such requests pass.
	Unmatched string

	// Store (store) says where counts are kept: memory, which is the default and counts
	// in this process alone, or the URL of a Redis or Valkey that all nodes share, such
	// as redis://HOST:PORT, or of several that share out the keys, redis://HOST,HOST; see
	// docs/redis.md. A URL with a password is better given by the environment or the
	// config file: a flag can be seen in the list of processes.
	Store string

	// Memory (memory) is the most memory in bytes that the store in memory uses for
	// its keys; 256 MiB by default. Raising it costs that memory once so many keys are
	// live; lowering it makes the store forget keys sooner, idle ones first.
	Memory int64

	// StoreTimeout (store-timeout) is how long a store on the network may take for
	// one decision before each rule is answered by its on_store_failure; 10 ms by
	// default. Longer, and callers wait longer when it freezes: Envoy by default lets a
	// request pass after 20 ms. See docs/failure.md. The store in memory needs none.
	StoreTimeout time.Duration

	// SyncInterval (sync-interval) is how long this process keeps to itself what it let pass
	// by rules with coordination: eventual or gossip; 100 ms by default. Longer, and more
	// passes too much; shorter, and the others are told more often.
	SyncInterval time.Duration

	// RememberRefusals (remember-refusals) answers what a store on the network refused from
	// the memory of this process until its retry time is over; on by default, see package
	// refusals. Off: every decision asks the store. It costs a connection and at most 16 MiB.
	RememberRefusals bool

	// RememberRefusalsFor (remember-refusals-for) is the longest that such an answer is used; a
	// second by default. So long a key stays denied that somebody deletes in the store by hand.
	// Shorter, and each process asks more often about a key that is denied all the time.
	RememberRefusalsFor time.Duration

	// Gossip are the settings of how nodes tell each other, for the latter.
	Gossip Gossip

	// State (state) is a file that keeps the counts of the store in memory over a
	// restart: read at the start, saved at each StateInterval and at the end. Its
	// folder must be writable, and one service at a time can use it: New fails for a
	// second one. Of a link, the target is used. Empty, the default: counts begin anew.
	State string

	// StateInterval (state-interval) is the time between two saves of State; 30 s by
	// default, 0: only at the end. A crash loses what was counted since the last one.
	// A save of a million token buckets takes a tenth of a second of one processor.
	StateInterval time.Duration

	// Namespace (namespace) sets the keys of this service apart from those of others
	// in a shared store; stint by default. Services with the same one count as one. The
	// store in memory is not shared.
	Namespace string

	// NamespaceSecretFile (namespace-secret-file) holds a secret of at least 16 bytes, the
	// same on all nodes of a namespace: values of api_key and cookie stand in keys as their
	// hash under it, and it is never in the store. Changing it begins their counts anew.
	// Empty, the default: a process that counts alone makes one, and keeps it beside State
	// if that is set; nodes that share a store or gossip use the plain SHA-256.
	NamespaceSecretFile string

	// HTTP (http) is the address for HTTP traffic: HOST:PORT, or unix:PATH for a socket of
	// this machine, whose clients count as 127.0.0.1; 127.0.0.1:8080 by default. Empty: not
	// opened.
	HTTP string

	// HTTPTLS (http-tls-cert, http-tls-key, http-tls-client-ca, http-tls-client-name) are
	// the files of the certificates of the HTTP address, as PEM, read again when they
	// change. Without a certificate, the default, connections are not encrypted; without a
	// ClientCA clients need none.
	HTTPTLS web.CertFiles

	// GRPC (grpc) is the address for Envoy's protocol, as HTTP; 127.0.0.1:8081 by default.
	// Empty: not opened.
	GRPC string

	// RLS are the settings of that protocol.
	RLS RLS

	// Admin (admin) is the address for people and monitoring, as HTTP; 127.0.0.1:8082 by
	// default. Empty: not opened. Beyond this machine it needs an AdminToken.
	Admin string

	// AdminTLS (admin-tls-...) are the files of its certificates, see HTTPTLS.
	AdminTLS web.CertFiles

	// SocketMode (socket-mode) is the mode of the files of Unix sockets: who may write to
	// one may connect; 0600 by default, this user alone.
	SocketMode fs.FileMode

	// MaxConnections (max-connections) is the most connections of HTTP and GRPC together;
	// 16,384 by default, 0: any number. One above is closed at once. An idle one takes
	// some 10 KiB and a file descriptor. Whatever it is, Admin and reloads keep some
	// descriptors, where those of a process are bounded.
	MaxConnections int64

	// RESP (resp) is the address for the Redis protocol, which this version does not open;
	// empty, the default: not asked for.
	RESP string

	// AdminToken (admin-token) is what admin calls send as "Authorization: Bearer
	// TOKEN". Empty, the default: none is asked for. A flag can be seen in the list
	// of processes: use the environment, the config file or AdminTokenFile.
	AdminToken string

	// AdminTokenFile (admin-token-file) is a file that holds the AdminToken, as
	// orchestrators mount secrets. Empty by default.
	AdminTokenFile string

	// AdminHosts (admin-host) are names of hosts, without a port, that calls of Admin may
	// be for while there is no AdminToken, beside localhost and loopback addresses. None
	// by default. They keep out pages of a browser whose name was resolved to this machine.
	AdminHosts []string

	// TrustedProxies (trusted-proxies) are the addresses and prefixes whose forwarded
	// headers are believed. None by default: the client is whoever connects.
	TrustedProxies []string

	// AuthDomain (auth-domain) is the domain whose http rules answer GET /v1/auth, the
	// question of proxies, where a call does not name one. Empty, the default: each call
	// has to.
	AuthDomain string

	// AuthDeny (auth-deny) is the status of every refusal of /v1/auth where a call does
	// not name one, for proxies that know no other, such as 403 for nginx. 0, the default:
	// the one that the limit wants.
	AuthDeny int

	// AuthWait (auth-wait) is how long /v1/auth holds its answer for a request that a
	// leaky bucket delays; 5 s by default, 10 s at most. Who would be held longer is
	// denied at once, so it must be shorter than the proxies' own timeout.
	AuthWait time.Duration

	// DegradedHeader (degraded-header) is the name of a header that /v1/auth and /demo set to
	// "true" on answers of failure policies. Empty, the default: none.
	DegradedHeader string

	// Demo (demo) is the domain whose http rules limit GET /demo on the HTTP
	// address. Empty, the default: there is no /demo.
	Demo string

	// Pprof (pprof) serves /debug/pprof on the admin address to who brings the AdminToken,
	// without which it cannot be switched on; off by default. A profile that is being taken
	// costs a few percent of the processor.
	Pprof bool

	// DrainDelay (drain-delay) is how long the service still accepts calls after it
	// was told to stop, so that a load balancer sees /readyz fail first. By default
	// [AutoDrainDelay], which is up to a second where connections of HTTP traffic are open.
	DrainDelay time.Duration

	// DrainTimeout (drain-timeout) is how long calls in flight may take to finish
	// once nothing new is accepted; 20 s by default, 0 cuts them at once.
	DrainTimeout time.Duration

	// LogFormat (log-format) is text, the default, or json.
	LogFormat string

	// LogLevel (log-level) is the least that is logged: debug, info (the default),
	// warn or error.
	LogLevel string

	// Stats are the settings of statistics beside those of the admin address.
	Stats Stats

	// EnvoyEnv (envoy-env) reads the environment variables of envoyproxy/ratelimit too,
	// such as PORT and REDIS_URL, and for those that are not set their defaults there, so
	// that a deployment can swap the image; off by default. See package envoyenv. It is
	// read by [Configure]; a program that sets it itself sets nothing else by it.
	EnvoyEnv bool

	// Output is where the log goes; nil means standard error.
	Output io.Writer

	// Clock is that of the store in memory, for tests; nil: the machine's.
	Clock func() stint.Instant

	// where says for each setting who gave its value, for errors.
	where map[string]string
	// warnings are what is odd about where values came from, logged at the start.
	Warnings []string
}

// Default returns the configuration of a service that nobody configured.
func Default() Config {
	return Config{
		RulesFiles:          FilesYAML,
		CatalogDomain:       "api",
		Unmatched:           unmatchedAllow,
		Store:               "memory",
		Memory:              memory.DefaultBudget,
		StoreTimeout:        10 * time.Millisecond,
		SyncInterval:        eventual.DefaultInterval,
		Namespace:           redis.DefaultNamespace,
		RememberRefusals:    true,
		RememberRefusalsFor: denycache.DefaultMaxAge,
		StateInterval:       30 * time.Second,
		AuthWait:            httpapi.DefaultWait,
		HTTP:                "127.0.0.1:8080",
		GRPC:                "127.0.0.1:8081",
		RLS:                 defaultRLS(),
		Stats:               defaultStats(),
		Admin:               "127.0.0.1:8082",
		SocketMode:          0o600,
		MaxConnections:      16_384,
		DrainDelay:          AutoDrainDelay,
		DrainTimeout:        20 * time.Second,
		LogFormat:           "text",
		LogLevel:            "info",
	}
}

// Logger returns the log of the configuration, which must have been checked.
func (c *Config) Logger() *slog.Logger {
	var out io.Writer = os.Stderr
	if c.Output != nil {
		out = c.Output
	}
	return logging.New(out, c.LogFormat, c.LogLevel)
}

// Error is a fault of a configuration.
type Error struct {
	Where   string // "--http", "STINT_HTTP", "stint.yaml:3", or the name of a setting
	Problem string
	Hint    string // what to do
	Err     error  // the cause; may be nil
}

// Error returns the place and the problem. The hint stands apart.
func (e *Error) Error() string { return e.Where + ": " + e.Problem }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Fault returns an error about a setting. Its place is where the value was given.
func (c *Config) Fault(setting, problem, hint string) *Error {
	where := c.where[setting]
	if where == "" {
		where = setting
	}
	return &Error{Where: where, Problem: problem, Hint: hint}
}

// Check returns the faults of values that do not go together. Each single value is checked when it
// is set.
func (c *Config) Check() error {
	if c.State != "" && c.Store != "memory" {
		return c.Fault("state", "only the store in memory keeps its counts in a file", "leave state empty, or use --store memory")
	}
	for _, s := range c.Settings() {
		if err := s.Check(); err != nil {
			return c.Fault(s.Name, err.Error(), config.HintOf(err))
		}
	}
	if c.CatalogDomain == "" {
		return c.Fault("catalog-domain", "empty", "name the domain of rules per API that name none, such as api")
	}
	if c.CatalogDB != "" && len(c.Catalog) > 0 {
		return c.Fault("catalog-db", "catalog is given too: rules per API are kept in files or in a store, not in both",
			"give one of the two; POST /v1/rules brings the rules of a file into the store")
	}
	if c.StoreTimeout == 0 {
		return c.Fault("store-timeout", "no store answers in no time", "write a time such as 10ms")
	}
	if c.SyncInterval < time.Millisecond {
		return c.Fault("sync-interval", "nobody is told more often than once in a millisecond", "write a time such as 100ms")
	}
	if c.RememberRefusalsFor < time.Millisecond {
		return c.Fault("remember-refusals-for", "nothing is remembered for less than a millisecond", "write a time such as 1s, or remember-refusals: false")
	}
	if err := errors.Join(c.checkTLS(), c.RLS.check(c), c.Stats.check(c), c.Gossip.check(c)); err != nil {
		return err
	}
	if c.HTTP == "" && c.GRPC == "" && c.Admin == "" {
		return c.Fault("http", "no listener is left: http, grpc and admin are all empty",
			"give one of them an address, such as 127.0.0.1:8080")
	}
	if c.AuthWait > httpapi.MostWait {
		return c.Fault("auth-wait", fmt.Sprintf("%v is too long: calls are cut after some seconds", c.AuthWait),
			"write at most "+httpapi.MostWait.String())
	}
	if c.AdminToken != "" && c.AdminTokenFile != "" {
		return c.Fault("admin-token-file", "admin-token is given too", "give one of the two")
	}
	if err := httpapi.CheckAdmin(c.Admin, c.AdminToken+c.AdminTokenFile); err != nil {
		return c.Fault("admin", err.Error(), "set STINT_ADMIN_TOKEN or admin-token-file, or listen on 127.0.0.1")
	}
	if c.Pprof && c.Admin != "" && c.AdminToken+c.AdminTokenFile == "" {
		return c.Fault("pprof", "profiles always ask for an admin token, and there is none", "set STINT_ADMIN_TOKEN or admin-token-file, or leave pprof out")
	}
	if c.Demo != "" && c.HTTP == "" {
		return c.Fault("demo", "there is no HTTP address to serve /demo on", "give http an address, or leave demo empty")
	}
	return nil
}

// The values of Unmatched.
const (
	unmatchedAllow = "allow"
	UnmatchedDeny  = "deny"
)

// DeniesUnmatched reports whether requests are denied that no limit applies to.
func (c *Config) DeniesUnmatched() bool { return c.Unmatched == UnmatchedDeny && !c.EnvoyEnv }

// Proxies returns TrustedProxies as prefixes. The configuration must have been checked.
func (c *Config) Proxies() []netip.Prefix {
	prefixes := make([]netip.Prefix, 0, len(c.TrustedProxies))
	for _, text := range c.TrustedProxies {
		if p, err := config.Prefix(text); err == nil {
			prefixes = append(prefixes, p)
		}
	}
	return prefixes
}
