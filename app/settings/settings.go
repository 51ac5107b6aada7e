package settings

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"stint/internal/config"
	"stint/server/httpapi"
)

// A Setting is one field of a Config under its name in flags, environment variables and the config
// file. It implements the Value interface of flag libraries.
type Setting struct {
	// Name is the flag without its dashes, and the key of the config file.
	Name string
	// Usage is the help text in one line, with the placeholder of the value in backquotes.
	Usage string

	value config.Value
}

// Env returns the name of the environment variable: STINT_DRAIN_DELAY for drain-delay.
func (s *Setting) Env() string {
	return "STINT_" + strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
}

// Type returns the kind of the value: string, list, bool, duration, number, fraction or size.
func (s *Setting) Type() string { return s.value.Type() }

// String returns the present value in the form that Set accepts.
func (s *Setting) String() string {
	if s.value == nil {
		return ""
	}
	return s.value.String()
}

// Set changes the value. It adds to a list, and replaces any other value.
func (s *Setting) Set(text string) error { return s.value.Set(text) }

// Try sets the value as Set does; its error is an [*Error] with where as its place.
func (s *Setting) Try(text, where string) error {
	if err := s.Set(text); err != nil {
		return &Error{Where: where, Problem: err.Error(), Hint: config.HintOf(err)}
	}
	return nil
}

// Check returns an error if the present value is not allowed.
func (s *Setting) Check() error { return s.value.Check() }

// Groups returns the names of the settings that help shows, in groups.
func (c *Config) Groups() []config.Group {
	var names []string
	for _, s := range c.Settings() {
		names = append(names, s.Name)
	}
	return config.Grouped(names)
}

// Settings returns all settings of c, in the order of help. They read and write c.
func (c *Config) Settings() []Setting {
	return slices.Concat([]Setting{
		{"rules", "`FILE|DIR` of rules, read again when it changes; may be repeated", config.Paths(&c.Rules)},
		{"rules-files", "which `FILES` of a folder are rules: yaml, visible or all", config.Text(&c.RulesFiles, config.OneOf(FilesYAML, FilesVisible, FilesAll))},
		{"catalog", "`FILE` of rules per API, .csv, .jsonl or ratelimiter4j's, read again when it changes; may be repeated", config.Paths(&c.Catalog)},
		{"catalog-db", "`FILE` that stores rules per API, which /v1/rules on the admin address changes", config.Path(&c.CatalogDB)},
		{"catalog-domain", "`DOMAIN` of rules per API that name none", config.Text(&c.CatalogDomain, nil)},
		{
			"catalog-fold", "`WORD` for spellings of a path that rules per API treat as one: case, trailing_slash, ...; may be repeated",
			config.List(&c.CatalogFold, checkFold),
		},
		{"records", "`WHERE` subjects, overrides, bans and API keys are, which admin changes while the service runs: a file, or redis://HOST:PORT that all nodes share", config.Text(&c.Records, checkRecords)},
		{"audit-for", "`TIME` that entries of the audit trail of records are kept, at least 1d", config.Duration(&c.AuditFor)},
		{"support-for", "longest `TIME` for which the role support may override a rule", config.Duration(&c.SupportFor)},
		{"records-copy", "`FILE` of this node's copy of records in Redis; by default records.db beside state", config.Path(&c.RecordsCopy)},
		{"rules-merge", "let several files hold descriptors of one domain", config.Flag(&c.RulesMerge)},
		{"unmatched", "what to `DO` with requests to which no limit applies: allow or deny", config.Text(&c.Unmatched, config.OneOf(unmatchedAllow, UnmatchedDeny))},
		{"store", "`WHERE` counts are stored: memory, or redis:// or memcached://HOST:PORT[,HOST:PORT] that all nodes share", config.Text(&c.Store, checkStore)},
		{"memory", "most memory for the keys of the store in memory, a `SIZE`", config.Size(&c.Memory, config.Bounds{Least: minMemory, What: "a store", More: "; 64MiB hold about two million keys"})},
		{"store-timeout", "longest `TIME` for a decision of a store on the network", config.Duration(&c.StoreTimeout)},
		{"sync-interval", "`TIME` between two reports of eventual and gossip limits to other nodes", config.Duration(&c.SyncInterval)},
		{"remember-refusals", "cache denials of Redis in this process until their retry time", config.Flag(&c.RememberRefusals)},
		{"remember-refusals-for", "longest `TIME` that a cached denial is used", config.Duration(&c.RememberRefusalsFor)},
		{"state", "`FILE` that keeps the counts of the store in memory, or local shares, over a restart", config.Path(&c.State)},
		{"state-interval", "`TIME` between two saves of that file; 0: only at the end", config.Duration(&c.StateInterval)},
		{"namespace", "`NAME` that separates keys from those of other services in a shared store", config.Text(&c.Namespace, checkNamespace)},
		{"namespace-secret-file", "`FILE` with the secret that hashes api_key and cookie values in keys, the same on all nodes", config.Path(&c.NamespaceSecretFile)},
		{"http", "`ADDR` for HTTP traffic, or unix:PATH", config.Socket(&c.HTTP)},
		{"grpc", "`ADDR` for Envoy's protocol, or unix:PATH", config.Socket(&c.GRPC)},
		{"resp", "`ADDR` for the Redis protocol, or unix:PATH", config.Socket(&c.RESP)},
		{"resp-token-file", "`FILE` that holds the token for AUTH; without it resp listens on loopback only", config.Path(&c.RESPTokenFile)},
		{"admin", "`ADDR` for metrics, health and inspection, or unix:PATH", config.Socket(&c.Admin)},
		{"socket-mode", "`MODE` of the files of Unix sockets: users who may write may connect", config.Mode(&c.SocketMode)},
		{"max-connections", "most connections of http, grpc and resp together, a `NUMBER`; 0: no bound", config.Number(&c.MaxConnections, 0, 1<<30)},
		{"admin-token", "`TOKEN` that admin calls must send; better given by the environment", config.Secret(&c.AdminToken)},
		{"admin-token-file", "`FILE` that holds the token", config.Path(&c.AdminTokenFile)},
		{"admin-access", "`FILE` of named callers of admin, their roles and the hashes of their tokens, read again when it changes", config.Path(&c.AdminAccess)},
		{"admin-host", "`NAME` of a host that admin answers without a token, beside localhost; may be repeated", config.List(&c.AdminHosts, checkHost)},
		{
			"trusted-proxies", "`ADDR|PREFIX` of proxies whose forwarded headers are used; may be repeated",
			config.List(&c.TrustedProxies, checkPrefix),
		},
		{"auth-domain", "`DOMAIN` of the http rules that answer GET /v1/auth", config.Text(&c.AuthDomain, nil)},
		{"auth-deny", "`STATUS` of refusals by /v1/auth, such as 403 for nginx", config.Refusal(&c.AuthDeny, httpapi.LeastDeny, httpapi.MostDeny)},
		{"auth-wait", "longest `TIME` that /v1/auth delays an answer", config.Duration(&c.AuthWait)},
		{"degraded-header", "`NAME` of a header that is true if on_store_failure decided /v1/auth or /demo", config.Text(&c.DegradedHeader, config.CheckFieldName)},
		{"demo", "serve GET /demo, limited by the http rules of this `DOMAIN`", config.Text(&c.Demo, nil)},
		{"pprof", "serve /debug/pprof on the admin address", config.Flag(&c.Pprof)},
		{"drain-delay", "`TIME` to go on accepting calls after SIGTERM; auto: 1s on open HTTP connections", config.DurationOrAuto(&c.DrainDelay, AutoDrainDelay)},
		{"drain-timeout", "longest `TIME` for calls in flight to finish", config.Duration(&c.DrainTimeout)},
		{"log-format", "`FORMAT` of the log: text or json", config.Text(&c.LogFormat, config.OneOf("text", "json"))},
		{"log-level", "least `LEVEL` to log: debug, info, warn or error", config.Text(&c.LogLevel, config.OneOf("debug", "info", "warn", "error"))},
	}, tlsSettings("http", &c.HTTPTLS), tlsSettings("admin", &c.AdminTLS), tlsSettings("grpc", &c.RLS.TLS), tlsSettings("resp", &c.RESPTLS), c.RLS.settings(), c.Stats.settings(), c.OTLP.settings(), c.Facts.settings(), c.Gossip.settings(), []Setting{
		{"envoy-env", "read the environment of envoyproxy/ratelimit too, as docs/coming-from-envoy-ratelimit.md says", config.Flag(&c.EnvoyEnv)},
	})
}

// checkHost returns an error if s is no host name or address without a port.
func checkHost(s string) error {
	if _, err := netip.ParseAddr(s); err == nil {
		return nil
	}
	if s == "" || strings.ContainsAny(s, ":/ \t*@?#[]") {
		return config.Fault(fmt.Sprintf("%q is not a host name", s), "write it without scheme and port, such as stint.internal")
	}
	return nil
}

// minMemory is the smallest useful store: some ten thousand keys.
const minMemory = 1 << 20

// firstPart returns the scheme of a store's URL, in quotes.
func firstPart(s string) string {
	scheme, _, _ := strings.Cut(s, "://")
	return strconv.Quote(scheme)
}

func checkPrefix(s string) error {
	_, err := config.Prefix(s)
	return err
}

// relativeTo makes the paths of a setting relative to dir instead of the working directory.
func (s *Setting) relativeTo(dir, given string) string {
	prefix, path := config.PathIn(s.value, given)
	if path == "" || filepath.IsAbs(path) {
		return given
	}
	return prefix + filepath.Join(dir, path)
}
