package app

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"stint/internal/setting"
	"stint/server/httpapi"
)

// A Setting is one field of a Config under the name that flags, environment
// variables and the config file use for it. It fulfils the Value interface of
// flag libraries.
type Setting struct {
	// Name is the flag without its dashes, and the key of the config file.
	Name string
	// Usage says in one line what it does. The placeholder of its value stands in
	// backquotes.
	Usage string

	value setting.Value
}

// Env returns the name of the environment variable: STINT_DRAIN_DELAY for drain-delay.
func (s *Setting) Env() string {
	return "STINT_" + strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
}

// Type names the kind of the value: string, list, bool, duration, number, fraction or size.
func (s *Setting) Type() string { return s.value.Type() }

// String returns the present value as it would be given.
func (s *Setting) String() string {
	if s.value == nil {
		return ""
	}
	return s.value.String()
}

// Set changes the value. A list grows by each call; all else is replaced.
func (s *Setting) Set(text string) error { return s.value.Set(text) }

// Try sets the value as Set does; its error is a [*ConfigError] that names where.
func (s *Setting) Try(text, where string) error {
	if err := s.Set(text); err != nil {
		return &ConfigError{Where: where, Problem: err.Error(), Hint: setting.HintOf(err)}
	}
	return nil
}

// Check returns what is wrong with the present value.
func (s *Setting) Check() error { return s.value.Check() }

// Settings returns all settings of c, in the order in which help shows them. They
// read and write c.
func (c *Config) Settings() []Setting {
	return slices.Concat([]Setting{
		{"rules", "`FILE|DIR` of rules, read again when it changes; may be repeated", setting.Paths(&c.Rules)},
		{"rules-files", "which `FILES` of a folder are rules: yaml, visible or all", setting.Text(&c.RulesFiles, oneOf(filesYAML, filesVisible, filesAll))},
		{"catalog", "`FILE` of rules per API, .csv, .jsonl or ratelimiter4j's, read again when it changes; may be repeated", setting.Paths(&c.Catalog)},
		{"catalog-db", "`FILE` that keeps rules per API, changed by /v1/rules on the admin address", setting.Path(&c.CatalogDB)},
		{"catalog-domain", "`DOMAIN` of rules per API that name none", setting.Text(&c.CatalogDomain, nil)},
		{
			"catalog-fold", "`WORD` for spellings of a path that rules per API take for one: case, trailing_slash, ...; may be repeated",
			setting.List(&c.CatalogFold, checkFold),
		},
		{"rules-merge", "let several files hold descriptors of one domain", setting.Flag(&c.RulesMerge)},
		{"store", "`WHERE` counts are kept: memory, or redis://HOST:PORT[,HOST:PORT] for all nodes as one", setting.Text(&c.Store, checkStore)},
		{"memory", "most memory for the keys of the store in memory, a `SIZE`", setting.Size(&c.Memory, setting.Bounds{Least: minMemory, What: "a store", More: "; 64MiB hold about two million keys"})},
		{"store-timeout", "longest `TIME` for a decision of a store on the network", setting.Duration(&c.StoreTimeout)},
		{"sync-interval", "`TIME` between two exchanges about limits that nodes decide by themselves", setting.Duration(&c.SyncInterval)},
		{"remember-refusals", "answer takes that Redis refused from memory until their retry time", setting.Flag(&c.RememberRefusals)},
		{"state", "`FILE` that keeps the counts of the store in memory over a restart", setting.Path(&c.State)},
		{"state-interval", "`TIME` between two saves of that file; 0: only at the end", setting.Duration(&c.StateInterval)},
		{"namespace", "`NAME` that sets keys apart in a shared store", setting.Text(&c.Namespace, checkNamespace)},
		{"http", "`ADDR` for HTTP traffic", setting.Text(&c.HTTP, checkAddress)},
		{"grpc", "`ADDR` for Envoy's protocol, or unix:PATH", setting.Text(&c.GRPC, checkSocket)},
		{"resp", "`ADDR` for the Redis protocol (not built yet)", setting.Text(&c.RESP, checkAddress)},
		{"admin", "`ADDR` for metrics, health and inspection", setting.Text(&c.Admin, checkAddress)},
		{"admin-token", "`TOKEN` that admin calls must send; better given by the environment", setting.Secret(&c.AdminToken)},
		{"admin-token-file", "`FILE` that holds the token", setting.Path(&c.AdminTokenFile)},
		{
			"trusted-proxies", "`ADDR|PREFIX` whose forwarded headers are believed; may be repeated",
			setting.List(&c.TrustedProxies, checkPrefix),
		},
		{"auth-domain", "`DOMAIN` of the http rules that answer GET /v1/auth", setting.Text(&c.AuthDomain, nil)},
		{"auth-deny", "`STATUS` of refusals by /v1/auth, such as 403 for nginx", &status{&c.AuthDeny}},
		{"auth-wait", "longest `TIME` that /v1/auth holds an answer back", setting.Duration(&c.AuthWait)},
		{"degraded-header", "`NAME` of a header that says true where on_store_failure answered /v1/auth or /demo", setting.Text(&c.DegradedHeader, checkFieldName)},
		{"demo", "serve GET /demo, limited by the http rules of this `DOMAIN`", setting.Text(&c.Demo, nil)},
		{"pprof", "serve /debug/pprof on the admin address", setting.Flag(&c.Pprof)},
		{"drain-delay", "`TIME` to go on accepting calls after SIGTERM", setting.Duration(&c.DrainDelay)},
		{"drain-timeout", "longest `TIME` for calls in flight to finish", setting.Duration(&c.DrainTimeout)},
		{"log-format", "`FORMAT` of the log: text or json", setting.Text(&c.LogFormat, oneOf("text", "json"))},
		{"log-level", "least `LEVEL` to log: debug, info, warn or error", setting.Text(&c.LogLevel, oneOf("debug", "info", "warn", "error"))},
	}, c.RLS.settings(), c.Stats.settings(), c.Gossip.settings(), []Setting{
		{"envoy-env", "read the environment of envoyproxy/ratelimit too, as docs/coming-from-envoy-ratelimit.md says", setting.Flag(&c.EnvoyEnv)},
	})
}

// status is that of a refusal, 0 for none.
type status struct{ field *int }

func (v *status) Type() string { return "status" }

func (v *status) String() string {
	if *v.field == 0 {
		return ""
	}
	return strconv.Itoa(*v.field)
}

func (v *status) Set(s string) error {
	n, err := strconv.Atoi(s)
	if s != "" && err != nil {
		return setting.Fault(fmt.Sprintf("%q is no status", s), statusHint)
	}
	*v.field = n
	return v.Check()
}

const statusHint = "write 400 to 499, such as 403, or nothing for that of the limit"

func (v *status) Check() error {
	if n := *v.field; n != 0 && (n < httpapi.LeastDeny || n > httpapi.MostDeny) {
		return setting.Fault(fmt.Sprintf("%d is no status of a refusal", n), statusHint)
	}
	return nil
}

// minMemory is the least that is worth a store: some ten thousand keys.
const minMemory = 1 << 20

// firstPart returns what stands before the address of a store, in quotes.
func firstPart(s string) string {
	scheme, _, _ := strings.Cut(s, "://")
	return strconv.Quote(scheme)
}

func oneOf(words ...string) func(string) error {
	return func(s string) error {
		if slices.Contains(words, s) {
			return nil
		}
		return setting.Fault(fmt.Sprintf("unknown value %q", s), "use "+strings.Join(words, " or "))
	}
}

// checkAddress accepts HOST:PORT, :PORT, and nothing at all.
func checkAddress(s string) error {
	if s == "" {
		return nil
	}
	const hint = "write HOST:PORT such as 127.0.0.1:8080, or nothing to switch the listener off"
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return setting.Fault(fmt.Sprintf("%q is not an address", s), hint)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return setting.Fault(fmt.Sprintf("%q has no port between 0 and 65535", s), hint)
	}
	return nil
}

// checkSocket accepts unix:PATH beside what checkAddress does.
func checkSocket(s string) error {
	path, isUnix := strings.CutPrefix(s, unixPrefix)
	switch {
	case !isUnix:
		return checkAddress(s)
	case path == "":
		return setting.Fault("a socket without a path", "write unix:PATH, such as unix:/run/stint.sock")
	}
	return nil
}

func checkPrefix(s string) error {
	_, err := parsePrefix(s)
	return err
}

// parsePrefix reads an address as the prefix of its full length.
func parsePrefix(s string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, setting.Fault(fmt.Sprintf("%q is neither an address nor a prefix", s), "write 10.0.0.1, 10.0.0.0/8 or 2001:db8::/32")
	}
	return p.Masked(), nil
}

// relativeTo makes the paths of a setting relative to a folder instead of the
// working one.
func (s *Setting) relativeTo(dir, given string) string {
	if !setting.HoldsPaths(s.value) || given == "" || filepath.IsAbs(given) {
		return given
	}
	return filepath.Join(dir, given)
}
