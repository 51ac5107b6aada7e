package app

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

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

	value value
}

// A value is a field of a Config as text.
type value interface {
	Type() string     // what flag libraries call it
	String() string   // the present value
	Set(string) error // a new value; lists grow
	check() error     // the present value, which a program may have put there itself
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
		return &ConfigError{Where: where, Problem: err.Error(), Hint: hintOf(err)}
	}
	return nil
}

// Check returns what is wrong with the present value.
func (s *Setting) Check() error { return s.value.check() }

// Settings returns all settings of c, in the order in which help shows them. They
// read and write c.
func (c *Config) Settings() []Setting {
	return slices.Concat([]Setting{
		{"rules", "`FILE|DIR` of rules, read again when it changes; may be repeated", &list{&c.Rules, nil, true}},
		{"rules-files", "which `FILES` of a folder are rules: yaml, visible or all", &text{&c.RulesFiles, oneOf(filesYAML, filesVisible, filesAll)}},
		{"catalog", "`FILE` of rules per API, .csv, .jsonl or ratelimiter4j's, read again when it changes; may be repeated", &list{&c.Catalog, nil, true}},
		{"catalog-db", "`FILE` that keeps rules per API, changed by /v1/rules on the admin address", &path{&c.CatalogDB}},
		{"catalog-domain", "`DOMAIN` of rules per API that name none", &text{&c.CatalogDomain, nil}},
		{
			"catalog-fold", "`WORD` for spellings of a path that rules per API take for one: case, trailing_slash, ...; may be repeated",
			&list{&c.CatalogFold, checkFold, false},
		},
		{"rules-merge", "let several files hold descriptors of one domain", &flag{&c.RulesMerge}},
		{"store", "`WHERE` counts are kept: memory, or redis://HOST:PORT[,HOST:PORT] for all nodes as one", &text{&c.Store, checkStore}},
		{"memory", "most memory for the keys of the store in memory, a `SIZE`", &size{&c.Memory, minMemory, 0, "a store", "; 64MiB hold about two million keys"}},
		{"store-timeout", "longest `TIME` for a decision of a store on the network", &duration{&c.StoreTimeout}},
		{"remember-refusals", "answer takes that Redis refused from memory until their retry time", &flag{&c.RememberRefusals}},
		{"state", "`FILE` that keeps the counts of the store in memory over a restart", &path{&c.State}},
		{"state-interval", "`TIME` between two saves of that file; 0: only at the end", &duration{&c.StateInterval}},
		{"namespace", "`NAME` that sets keys apart in a shared store", &text{&c.Namespace, checkNamespace}},
		{"http", "`ADDR` for HTTP traffic", &text{&c.HTTP, checkAddress}},
		{"grpc", "`ADDR` for Envoy's protocol, or unix:PATH", &text{&c.GRPC, checkSocket}},
		{"resp", "`ADDR` for the Redis protocol (not built yet)", &text{&c.RESP, checkAddress}},
		{"admin", "`ADDR` for metrics, health and inspection", &text{&c.Admin, checkAddress}},
		{"admin-token", "`TOKEN` that admin calls must send; better given by the environment", &secret{&c.AdminToken}},
		{"admin-token-file", "`FILE` that holds the token", &path{&c.AdminTokenFile}},
		{
			"trusted-proxies", "`ADDR|PREFIX` whose forwarded headers are believed; may be repeated",
			&list{&c.TrustedProxies, checkPrefix, false},
		},
		{"auth-domain", "`DOMAIN` of the http rules that answer GET /v1/auth", &text{&c.AuthDomain, nil}},
		{"auth-deny", "`STATUS` of refusals by /v1/auth, such as 403 for nginx", &status{&c.AuthDeny}},
		{"auth-wait", "longest `TIME` that /v1/auth holds an answer back", &duration{&c.AuthWait}},
		{"demo", "serve GET /demo, limited by the http rules of this `DOMAIN`", &text{&c.Demo, nil}},
		{"pprof", "serve /debug/pprof on the admin address", &flag{&c.Pprof}},
		{"drain-delay", "`TIME` to go on accepting calls after SIGTERM", &duration{&c.DrainDelay}},
		{"drain-timeout", "longest `TIME` for calls in flight to finish", &duration{&c.DrainTimeout}},
		{"log-format", "`FORMAT` of the log: text or json", &text{&c.LogFormat, oneOf("text", "json")}},
		{"log-level", "least `LEVEL` to log: debug, info, warn or error", &text{&c.LogLevel, oneOf("debug", "info", "warn", "error")}},
	}, c.RLS.settings(), c.Stats.settings(), []Setting{
		{"envoy-env", "read the environment of envoyproxy/ratelimit too, as docs/coming-from-envoy-ratelimit.md says", &flag{&c.EnvoyEnv}},
	})
}

// A hinted error is a problem with a hint what to do about it.
type hinted struct{ problem, hint string }

func (e *hinted) Error() string { return e.problem }

func hintOf(err error) string {
	if h, ok := errors.AsType[*hinted](err); ok {
		return h.hint
	}
	return ""
}

// text is a string, checked.
type text struct {
	field *string
	valid func(string) error
}

func (v *text) Type() string   { return "string" }
func (v *text) String() string { return *v.field }

func (v *text) Set(s string) error {
	*v.field = s
	return v.check()
}

func (v *text) check() error {
	if v.valid == nil {
		return nil
	}
	return v.valid(*v.field)
}

// secret is a string that is never shown.
type secret struct{ field *string }

func (v *secret) Type() string       { return "string" }
func (v *secret) Set(s string) error { *v.field = s; return nil }
func (v *secret) check() error       { return nil }

func (v *secret) String() string {
	if *v.field == "" {
		return ""
	}
	return "(hidden)"
}

// path is the name of a file.
type path struct{ field *string }

func (v *path) Type() string       { return "string" }
func (v *path) String() string     { return *v.field }
func (v *path) Set(s string) error { *v.field = s; return nil }
func (v *path) check() error       { return nil }

// list is several strings, separated by commas or given one after another.
type list struct {
	field *[]string
	valid func(string) error
	paths bool
}

func (v *list) Type() string   { return "list" }
func (v *list) String() string { return strings.Join(*v.field, ",") }

func (v *list) Set(s string) error {
	grown := append([]string(nil), *v.field...) // never writes into what somebody else holds
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			grown = append(grown, item)
		}
	}
	*v.field = grown
	return v.check()
}

func (v *list) check() error {
	if v.valid == nil {
		return nil
	}
	for _, item := range *v.field {
		if err := v.valid(item); err != nil {
			return err
		}
	}
	return nil
}

// flag is on or off.
type flag struct{ field *bool }

func (v *flag) Type() string   { return "bool" }
func (v *flag) String() string { return strconv.FormatBool(*v.field) }
func (v *flag) check() error   { return nil }

func (v *flag) Set(s string) error {
	on, err := strconv.ParseBool(s)
	if err != nil {
		return &hinted{fmt.Sprintf("%q is neither true nor false", s), "write true or false"}
	}
	*v.field = on
	return nil
}

// duration is a time such as 1.5s.
type duration struct{ field *time.Duration }

func (v *duration) Type() string   { return "duration" }
func (v *duration) String() string { return v.field.String() }

func (v *duration) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil {
		return &hinted{fmt.Sprintf("%q is not a time", s), "write a number with its unit, such as 10ms, 5s or 1m"}
	}
	*v.field = d
	return v.check()
}

func (v *duration) check() error {
	if *v.field < 0 {
		return &hinted{fmt.Sprintf("%v is negative", *v.field), "write 0 or a positive time, such as 5s"}
	}
	return nil
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
		return &hinted{fmt.Sprintf("%q is no status", s), statusHint}
	}
	*v.field = n
	return v.check()
}

const statusHint = "write 400 to 499, such as 403, or nothing for that of the limit"

func (v *status) check() error {
	if n := *v.field; n != 0 && (n < httpapi.LeastDeny || n > httpapi.MostDeny) {
		return &hinted{fmt.Sprintf("%d is no status of a refusal", n), statusHint}
	}
	return nil
}

// size is a number of bytes such as 512MiB, between two bounds; most 0: any.
type size struct {
	field       *int64
	least, most int64
	what        string // it is for
	more        string // about sizes, for hints
}

// minMemory is the least that is worth a store: some ten thousand keys.
const minMemory = 1 << 20

// sizeUnits are what a size may end in; the longer ones stand first.
var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"KB", 1e3},
	{"kB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
	{"", 1},
}

func (v *size) Type() string { return "size" }

func (v *size) String() string {
	for i := 3; i >= 0; i-- {
		if u := sizeUnits[i]; *v.field >= u.bytes && *v.field%u.bytes == 0 {
			return strconv.FormatInt(*v.field/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(*v.field, 10)
}

func (v *size) Set(s string) error {
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > (1<<62)/u.bytes {
			break
		}
		*v.field = n * u.bytes
		return v.check()
	}
	return &hinted{fmt.Sprintf("%q is not a size", s), "write bytes, or a whole number with KiB, MiB or GiB, such as 512MiB"}
}

func (v *size) check() error {
	if *v.field < v.least {
		least := size{field: &v.least}
		return &hinted{fmt.Sprintf("%d bytes is too little for %s", *v.field, v.what), "give it at least " + least.String() + v.more}
	}
	if v.most > 0 && *v.field > v.most {
		most := size{field: &v.most}
		return &hinted{fmt.Sprintf("%d bytes is too much for %s", *v.field, v.what), "give it at most " + most.String() + v.more}
	}
	return nil
}

// number is a whole number between two bounds.
type number struct {
	field       *int64
	least, most int64
}

func (v *number) Type() string   { return "number" }
func (v *number) String() string { return strconv.FormatInt(*v.field, 10) }

func (v *number) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return &hinted{fmt.Sprintf("%q is not a whole number", s), fmt.Sprintf("write a number between %d and %d", v.least, v.most)}
	}
	*v.field = n
	return v.check()
}

func (v *number) check() error {
	if *v.field < v.least || *v.field > v.most {
		return &hinted{fmt.Sprintf("%d is out of bounds", *v.field), fmt.Sprintf("write a number between %d and %d", v.least, v.most)}
	}
	return nil
}

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
		return &hinted{fmt.Sprintf("unknown value %q", s), "use " + strings.Join(words, " or ")}
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
		return &hinted{fmt.Sprintf("%q is not an address", s), hint}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return &hinted{fmt.Sprintf("%q has no port between 0 and 65535", s), hint}
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
		return &hinted{"a socket without a path", "write unix:PATH, such as unix:/run/stint.sock"}
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
		return netip.Prefix{}, &hinted{fmt.Sprintf("%q is neither an address nor a prefix", s), "write 10.0.0.1, 10.0.0.0/8 or 2001:db8::/32"}
	}
	return p.Masked(), nil
}

// relativeTo makes the paths of a setting relative to a folder instead of the
// working one.
func (s *Setting) relativeTo(dir, given string) string {
	isPath := false
	switch v := s.value.(type) {
	case *path:
		isPath = true
	case *list:
		isPath = v.paths
	}
	if !isPath || given == "" || filepath.IsAbs(given) {
		return given
	}
	return filepath.Join(dir, given)
}
