package settings

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"stint"
	"stint/chain/denycache"
	"stint/fleet/eventual"
	"stint/internal/config"
	"stint/internal/logging"
	"stint/internal/system"
	"stint/internal/web"
	"stint/notify"
	"stint/records"
	"stint/server/httpapi"
	"stint/store/memory"
	"stint/store/redis"
	"stint/telemetry"
)

// Config is the configuration of the service. [Default] returns the defaults, which are not the
// zero values: the zero Config opens no listener and can do nothing.
//
// Every field but those from Output on is also a flag, an environment variable and a key of the config
// file, under the name that its comment begins with; see [Config.Settings].
type Config struct {
	// Rules (rules) are files and folders of rules. The service reads them again when one of them
	// changes. None, the default: it decides only limits that requests contain, and every rule is
	// unmatched.
	Rules []string

	// RulesFiles (rules-files) selects the rule files of a folder: yaml, the default, for *.yaml
	// and *.yml except rule tests and names that begin with a dot; visible for all files except
	// names that begin with a dot; all for every file, as envoyproxy/ratelimit reads them.
	RulesFiles string

	// Catalog (catalog) are files of rules per API, up to millions of them: CSV, JSON Lines, or
	// those of ratelimiter4j; see docs/catalog.md. The service reads them again when one of them
	// changes. None by default.
	Catalog []string

	// CatalogDB (catalog-db) is a file that stores rules per API, where /v1/rules of the admin
	// listener changes them while the service runs. The service creates it if it does not exist, in
	// an existing folder; only one service at a time may use it. Empty, the default: none. It
	// cannot be combined with Catalog.
	CatalogDB string

	// CatalogDomain (catalog-domain) is the domain of rules per API that name none; api by default.
	CatalogDomain string

	// CatalogFold (catalog-fold) are the words for spellings of a path that the servers behind the
	// proxy treat as one, as in the http section of a rule file: case, trailing_slash,
	// escaped_slash, backslash, escapes, parameters, endings, dots_first. None by default.
	CatalogFold []string

	// Records (records) is a file of what operators set for single clients while the service runs:
	// subjects, overrides, bans and API keys; see package records. The service creates it if it does
	// not exist, in an existing folder; only one service at a time may use it. Or it is the URL of a
	// Redis or Valkey by which nodes share the records; see docs/redis-operation.md. Empty, the
	// default: there are none.
	Records string

	// RecordsCopy (records-copy) is the file of this node's copy of shared records, from which it
	// decides; only one service at a time may use it. Empty, the default: records.db beside State.
	RecordsCopy string

	// AuditFor (audit-for) is how long entries of the audit trail of records are kept; 400 days by
	// default, a day at least. Each change drops some that are older.
	AuditFor time.Duration

	// SupportFor (support-for) is how long overrides may last that callers with the role support make and
	// change; 31 days by default. Longer ones, and those without an end, need the role write.
	SupportFor time.Duration

	// RulesMerge (rules-merge) lets several files have descriptors of one domain; off by default: a
	// domain in two files is an error.
	RulesMerge bool

	// Unmatched (unmatched) decides a request to which no limit applies: allow, the default, lets
	// it pass; deny denies it, over every protocol. It is ignored with EnvoyEnv, since
	// envoyproxy/ratelimit lets such requests pass.
	Unmatched string

	// Store (store) is the place of the counts: memory, the default, for this process alone, or the
	// URL of a Redis or Valkey that all nodes share, such as redis://HOST:PORT, or of several
	// servers that share the keys, redis://HOST,HOST; see docs/redis.md. memcached://HOST:PORT counts in
	// memcached, which has no leases; see docs/memcached.md. A URL with a password is
	// better set by the environment or the config file: a flag is visible in the list of processes.
	Store string

	// Memory (memory) is the most memory in bytes that the store in memory uses for its keys; 256
	// MiB by default. A larger value needs that memory only when there are so many live keys; with
	// a smaller one the store evicts keys sooner, idle ones first.
	Memory int64

	// StoreTimeout (store-timeout) is how long a store on the network may take for one decision;
	// after that each rule follows its on_store_failure. 10 ms by default. With a longer one
	// callers wait longer when the store freezes: Envoy by default lets a request pass after 20 ms.
	// See docs/failure.md. The store in memory does not use it.
	StoreTimeout time.Duration

	// SyncInterval (sync-interval) is how often this process reports to others what it let pass by
	// rules with coordination: eventual or gossip; 100 ms by default. A longer one lets more pass
	// in excess; a shorter one sends more messages.
	SyncInterval time.Duration

	// RememberRefusals (remember-refusals) caches denials of a store on the network in this process
	// until their retry time; on by default, see package denycache. Off: every decision needs the
	// store. The cache needs a connection and at most 16 MiB.
	RememberRefusals bool

	// RememberRefusalsFor (remember-refusals-for) is the longest time that a cached denial is used;
	// a second by default. A key that somebody deletes in the store by hand stays denied for at
	// most this time. With a shorter one each process calls the store more often for a key that is
	// denied all the time.
	RememberRefusalsFor time.Duration

	// Gossip are the settings for rules with coordination: gossip.
	Gossip Gossip

	// State (state) is a file that keeps the counts of the store in memory over a restart: the
	// service reads it at the start, and saves it at each StateInterval and at the end. With another
	// store it keeps the local shares of this node: the service removes it at the start, and writes
	// it at the end. Its folder must be writable, and only one service at a time can use it: New
	// fails for a second one. If it is a link, its target is used. Empty, the default: counts start
	// at zero.
	State string

	// StateInterval (state-interval) is the time between two saves of State; 30 s by default, 0:
	// only at the end. A crash loses the counts since the last save. A save of a million token
	// buckets takes a tenth of a second of one processor.
	StateInterval time.Duration

	// Namespace (namespace) separates the keys of this service from those of others in a shared
	// store; stint by default. Services with the same namespace share counts. The store in memory
	// is not shared.
	Namespace string

	// NamespaceSecretFile (namespace-secret-file) is a file with a secret of at least 16 bytes, the
	// same on all nodes of a namespace: keys contain the hashes of api_key and cookie values with
	// it, and it is never in the store. After a change these values count from zero. Empty, the
	// default: a process that counts alone makes a secret, and keeps it beside State if that is
	// set; nodes that share a store or gossip use the plain SHA-256.
	NamespaceSecretFile string

	// HTTP (http) is the address for HTTP traffic: HOST:PORT, or unix:PATH for a socket of this
	// machine, whose clients count as 127.0.0.1; 127.0.0.1:8080 by default. Empty: not opened.
	HTTP string

	// HTTPTLS (http-tls-cert, http-tls-key, http-tls-client-ca, http-tls-client-name) are the PEM
	// files of the HTTP address's certificates, read again when they change. Without a certificate,
	// the default, connections are not encrypted; without a ClientCA clients need none.
	HTTPTLS web.CertFiles

	// GRPC (grpc) is the address for Envoy's protocol, like HTTP; 127.0.0.1:8081 by default. Empty:
	// not opened.
	GRPC string

	// RLS are the settings of that protocol.
	RLS RLS

	// Admin (admin) is the address for administration and monitoring, like HTTP; 127.0.0.1:8082 by
	// default. Empty: not opened. An address that other machines reach needs an AdminToken.
	Admin string

	// AdminTLS (admin-tls-...) are the files of its certificates, see HTTPTLS.
	AdminTLS web.CertFiles

	// SocketMode (socket-mode) is the mode of the files of Unix sockets: a user who may write to
	// one may connect; 0600 by default, only this user.
	SocketMode fs.FileMode

	// MaxConnections (max-connections) is the most connections of HTTP, GRPC and RESP together; 16,384 by
	// default, 0: no bound. A connection beyond it is closed at once. An idle one needs some 10 KiB
	// and a file descriptor. In any case some of the process's descriptors are reserved for Admin
	// and reloads, if their number is bounded.
	MaxConnections int64

	// RESP (resp) is the address for the Redis protocol, like HTTP. Empty, the default: not opened. An
	// address that other machines reach needs a RESPTokenFile.
	RESP string

	// RESPTLS (resp-tls-...) are the files of its certificates, see HTTPTLS.
	RESPTLS web.CertFiles

	// RESPTokenFile (resp-token-file) is a file with the token that Redis clients send with AUTH.
	// Empty, the default: they need none.
	RESPTokenFile string

	// RESPToken is the token, read by ReadToken.
	RESPToken string

	// AdminToken (admin-token) is the token that admin calls must send as "Authorization: Bearer
	// TOKEN". Empty, the default: none is needed. A flag is visible in the list of processes: use
	// the environment, the config file or AdminTokenFile.
	AdminToken string

	// AdminTokenFile (admin-token-file) is a file with the AdminToken, as orchestrators mount
	// secrets. Empty by default.
	AdminTokenFile string

	// AdminAccess (admin-access) is a file of the callers of admin: their names, roles, and the hashes
	// of their tokens; see package access. It is read again when it changes. Empty, the default:
	// there is only AdminToken.
	AdminAccess string

	// AdminHosts (admin-host) are host names, without a port, that Admin accepts in requests while
	// there is no AdminToken, besides localhost and loopback addresses. None by default. This
	// refuses pages in a browser whose host name was resolved to this machine.
	AdminHosts []string

	// TrustedProxies (trusted-proxies) are the addresses and prefixes of proxies whose forwarded
	// headers are used. None by default: the client is the peer of the connection.
	TrustedProxies []string

	// AuthDomain (auth-domain) is the domain whose http rules decide GET /v1/auth, which proxies
	// call, if a call does not name one. Empty, the default: each call must name one.
	AuthDomain string

	// AuthDeny (auth-deny) is the status of every denial by /v1/auth if a call does not name one,
	// for proxies that accept only one, such as 403 for nginx. 0, the default: the status of the
	// limit.
	AuthDeny int

	// AuthWait (auth-wait) is the longest time that /v1/auth delays its answer for a request in a
	// leaky bucket; 5 s by default, 10 s at most. A request that would wait longer is denied at
	// once, so it must be shorter than the proxies' own timeout.
	AuthWait time.Duration

	// DegradedHeader (degraded-header) is the name of a header that /v1/auth and /demo set to
	// "true" on decisions of failure policies. Empty, the default: none.
	DegradedHeader string

	// Demo (demo) is the domain whose http rules limit GET /demo on the HTTP address. Empty, the
	// default: there is no /demo.
	Demo string

	// Pprof (pprof) serves /debug/pprof on the admin address to clients with the AdminToken, which
	// it requires; off by default. Taking a profile costs a few percent of the processor.
	Pprof bool

	// DrainDelay (drain-delay) is how long the service still accepts calls after a stop signal, so
	// that a load balancer first sees /readyz fail. The default is [AutoDrainDelay], up to a second
	// if connections of HTTP traffic are open.
	DrainDelay time.Duration

	// DrainTimeout (drain-timeout) is how long calls in flight may take to finish after the service
	// has stopped accepting; 20 s by default, 0 cuts them at once.
	DrainTimeout time.Duration

	// LogFormat (log-format) is text, the default, or json.
	LogFormat string

	// LogLevel (log-level) is the lowest level that is logged: debug, info (the default), warn or
	// error.
	LogLevel string

	// Stats are the settings of statistics besides those of the admin address.
	Stats Stats

	// Facts are the settings of what is kept about rules and keys.
	Facts Facts

	// OTLP are the settings of OpenTelemetry.
	OTLP OTLP

	// EnvoyEnv (envoy-env) also reads the environment variables of envoyproxy/ratelimit, such as
	// PORT and REDIS_URL, and uses its defaults for those that are not set, so that a deployment
	// can swap the image; off by default. See package envoyenv. [Configure] reads them; a program
	// that sets this field itself changes no other setting by it.
	EnvoyEnv bool

	// Output is the writer of the log; nil means standard error.
	Output io.Writer

	// Webhooks are the receivers of events about used limits; see docs/webhooks.md. In a config file they are
	// the list webhooks; no flag and no variable sets them. None by default.
	Webhooks []notify.Receiver

	// Listeners are sockets that are open already. Each must have the address of one of the
	// listeners, which uses it instead of opening the address.
	Listeners []net.Listener

	// Notify reports the state of the service to its manager; nil: nobody asks.
	Notify *system.Notifier

	// Clock is the clock of the store in memory, for tests; nil means the machine's.
	Clock func() stint.Instant

	// Embedded lets the service run without a listener, inside a program that asks its limiter and
	// serves its admin handler.
	Embedded bool

	// SecretFile is where such a program has the secret kept that a process makes which counts alone and has
	// no State, because it stores something under the same keys. SharesKeys is set if other processes do so
	// in the same place: then there is no secret that they would have to agree on.
	SecretFile string
	SharesKeys bool

	// Log is the log; nil means one to Output in LogFormat.
	Log *slog.Logger

	// Collectors are where the service registers its metrics, which the program serves; nil means a
	// registry of its own, which the admin address serves.
	Collectors *telemetry.Collectors

	// where is the place of each setting's value, for errors.
	where map[string]string
	// Warnings are about suspicious values and variables; the service logs them at the start.
	Warnings []string
}

// Default returns the default configuration.
func Default() Config {
	return Config{
		RulesFiles:          FilesYAML,
		CatalogDomain:       "api",
		Unmatched:           unmatchedAllow,
		Store:               "memory",
		Memory:              memory.DefaultBudget,
		StoreTimeout:        10 * time.Millisecond,
		SyncInterval:        eventual.DefaultInterval,
		Gossip:              Gossip{Alone: DefaultGossipAlone},
		Namespace:           redis.DefaultNamespace,
		RememberRefusals:    true,
		RememberRefusalsFor: denycache.DefaultMaxAge,
		StateInterval:       30 * time.Second,
		AuditFor:            records.DefaultAuditFor,
		SupportFor:          31 * 24 * time.Hour,
		AuthWait:            httpapi.DefaultWait,
		HTTP:                "127.0.0.1:8080",
		GRPC:                "127.0.0.1:8081",
		RLS:                 defaultRLS(),
		Stats:               defaultStats(),
		Facts:               defaultFacts(),
		OTLP:                defaultOTLP(),
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
	if c.Log != nil {
		return c.Log
	}
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

// Error returns the place and the problem, without the hint.
func (e *Error) Error() string { return e.Where + ": " + e.Problem }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Fault returns an error about a setting, with the place of its value.
func (c *Config) Fault(setting, problem, hint string) *Error {
	where := c.where[setting]
	if where == "" {
		where = setting
	}
	return &Error{Where: where, Problem: problem, Hint: hint}
}

// Check returns an error about values that cannot be combined. Set checks each single value.
func (c *Config) Check() error {
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
			"give one of the two; POST /v1/rules copies the rules of a file into the store")
	}
	if c.StoreTimeout == 0 {
		return c.Fault("store-timeout", "must be more than 0", "write a time such as 10ms")
	}
	if c.SyncInterval < time.Millisecond {
		return c.Fault("sync-interval", "must be at least 1ms", "write a time such as 100ms")
	}
	if c.RememberRefusalsFor < time.Millisecond {
		return c.Fault("remember-refusals-for", "must be at least 1ms", "write a time such as 1s, or remember-refusals: false")
	}
	if err := errors.Join(c.checkTLS(), c.RLS.check(c), c.Stats.check(c), c.Gossip.check(c)); err != nil {
		return err
	}
	if err := cmp.Or(c.checkRecords(), c.checkFacts(), c.checkWebhooks()); err != nil {
		return err
	}
	if c.HTTP == "" && c.GRPC == "" && c.Admin == "" && c.RESP == "" && !c.Embedded {
		return c.Fault("http", "no listener is left: http, grpc, resp and admin are all empty",
			"give one of them an address, such as 127.0.0.1:8080")
	}
	if c.AuthWait > httpapi.MostWait {
		return c.Fault("auth-wait", fmt.Sprintf("%v is too long: calls are cut after some seconds", c.AuthWait),
			"write at most "+httpapi.MostWait.String())
	}
	if c.AdminToken != "" && c.AdminTokenFile != "" {
		return c.Fault("admin-token-file", "admin-token is given too", "give one of the two")
	}
	if err := httpapi.CheckAdmin(c.Admin, c.AdminToken+c.AdminTokenFile+c.AdminAccess); err != nil {
		return c.Fault("admin", err.Error(), "set STINT_ADMIN_TOKEN, admin-token-file or admin-access, or listen on 127.0.0.1")
	}
	if !httpapi.Local(c.RESP) && c.RESPTokenFile == "" {
		return c.Fault("resp", fmt.Sprintf("address %q can be reached from other machines and no token is set", c.RESP), "give resp-token-file, or listen on 127.0.0.1")
	}
	if c.Pprof && c.Admin != "" && c.AdminToken+c.AdminTokenFile+c.AdminAccess == "" {
		return c.Fault("pprof", "profiles always need an admin token, and there is none", "set STINT_ADMIN_TOKEN, admin-token-file or admin-access, or leave pprof out")
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

// DeniesUnmatched reports whether requests are denied to which no limit applies.
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
