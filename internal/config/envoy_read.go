package config

import (
	"fmt"
	"strings"
)

// EnvoyValue is a value for a setting, from the environment.
type EnvoyValue struct {
	Setting string
	Text    string
	Where   string // names of the variables, for errors
}

// EnvoyLine reports how a set variable was used.
type EnvoyLine struct {
	Variable *EnvoyVariable
	Text     string // its value; hidden for a password
	Refused  bool   // its value has a fault, so it is not used
}

// What returns the word for how the variable was used.
func (l *EnvoyLine) What() string {
	if l.Refused {
		return "recognised"
	}
	return l.Variable.Use.String()
}

// EnvoyFault is a value that is invalid, or that needs a feature which does not exist here.
type EnvoyFault struct{ Name, Problem, Hint string }

// Error returns the problem, without the hint.
func (f *EnvoyFault) Error() string { return f.Name + ": " + f.Problem }

// EnvoyReport is the result of reading an environment.
type EnvoyReport struct {
	Values []EnvoyValue
	Lines  []EnvoyLine // one for each set variable, in the order of the table
	Faults []*EnvoyFault
}

// EnvoyOptions are facts that ReadEnvoy needs beside the environment.
type EnvoyOptions struct {
	// AdminToken means that calls of the admin address need a token. Without one the admin address
	// is the loopback address.
	AdminToken bool
}

// ReadEnvoy reads an environment in the form of os.Environ. A variable that is used and not set has
// the default of envoyproxy/ratelimit. An empty variable counts as not set, as it does there. A
// variable with a fault has no entry in Values.
func ReadEnvoy(environ []string, options EnvoyOptions) *EnvoyReport {
	r := &envoyReader{given: make(map[string]string), faulty: make(map[string]bool)}
	for _, variable := range environ {
		if name, value, ok := strings.Cut(variable, "="); ok && value != "" {
			r.given[name] = value
		}
	}
	for i := range envoyVariables {
		r.look(&envoyVariables[i])
	}
	r.listeners(options)
	r.log()
	r.rules()
	r.protocol()
	r.statistics()
	r.store()
	for i := range r.Lines {
		r.Lines[i].Refused = r.faulty[r.Lines[i].Variable.Name]
	}
	return &r.EnvoyReport
}

// envoyReader converts variables to settings.
type envoyReader struct {
	EnvoyReport
	given  map[string]string
	faulty map[string]bool
}

// look adds a line for a variable that is set, and a fault if its value is invalid.
func (r *envoyReader) look(v *EnvoyVariable) {
	value, ok := r.given[v.Name]
	if !ok {
		return
	}
	shown := value
	if v.kind == secretKind {
		shown = "(hidden)"
	} else if at := strings.LastIndexByte(value, '@'); at >= 0 && strings.HasSuffix(v.Name, "_URL") {
		shown = "(hidden)" + value[at:]
	}
	r.Lines = append(r.Lines, EnvoyLine{Variable: v, Text: shown})
	if problem, hint := v.kind.check(value); problem != "" {
		r.fault(v.Name, problem, hint)
	}
}

func (r *envoyReader) fault(name, problem, hint string) {
	r.Faults = append(r.Faults, &EnvoyFault{name, problem, hint})
	r.faulty[name] = true
}

// get returns the value of a variable, or its default.
func (r *envoyReader) get(name string) string {
	if value, ok := r.given[name]; ok && !r.faulty[name] {
		return value
	}
	for i := range envoyVariables {
		if envoyVariables[i].Name == name {
			return envoyVariables[i].Default
		}
	}
	panic("envoyenv: no variable " + name)
}

// is returns the value of a boolean variable.
func (r *envoyReader) is(name string) bool { return truth(r.get(name)) }

// set sets a setting to a value that was made from the named variables.
func (r *envoyReader) set(setting, text string, from ...string) {
	r.Values = append(r.Values, EnvoyValue{setting, text, strings.Join(from, ", ")})
}

// same sets a setting to the unchanged value of a variable.
func (r *envoyReader) same(setting, name string) { r.set(setting, r.get(name), name) }

// address returns HOST:PORT from two variables.
func (r *envoyReader) address(host, port string) string { return joinHost(r.get(host), r.get(port)) }

func joinHost(host, port string) string {
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]"
	}
	return host + ":" + port
}

func (r *envoyReader) listeners(options EnvoyOptions) {
	r.set("http", r.address("HOST", "PORT"), "HOST", "PORT")
	if socket := r.get("GRPC_UDS"); socket != "" {
		r.set("grpc", "unix:"+socket, "GRPC_UDS")
	} else {
		r.set("grpc", r.address("GRPC_HOST", "GRPC_PORT"), "GRPC_HOST", "GRPC_PORT")
	}
	if options.AdminToken {
		r.set("admin", r.address("DEBUG_HOST", "DEBUG_PORT"), "DEBUG_HOST", "DEBUG_PORT")
	} else {
		r.set("admin", "127.0.0.1:"+r.get("DEBUG_PORT"), "DEBUG_PORT")
	}
	r.same("grpc-max-age", "GRPC_MAX_CONNECTION_AGE")
	r.same("grpc-max-age-grace", "GRPC_MAX_CONNECTION_AGE_GRACE")
	if !r.is("GRPC_SERVER_USE_TLS") {
		return
	}
	for _, pair := range [][2]string{
		{"grpc-tls-cert", "GRPC_SERVER_TLS_CERT"},
		{"grpc-tls-key", "GRPC_SERVER_TLS_KEY"},
		{"grpc-tls-client-ca", "GRPC_CLIENT_TLS_CACERT"},
		{"grpc-tls-client-name", "GRPC_CLIENT_TLS_SAN"},
	} {
		if r.get(pair[1]) != "" {
			r.same(pair[0], pair[1])
		} else if pair[0] == "grpc-tls-cert" || pair[0] == "grpc-tls-key" {
			r.fault(pair[1], "GRPC_SERVER_USE_TLS is true and this is not set", "name the file, or set GRPC_SERVER_USE_TLS to false")
		}
	}
}

func (r *envoyReader) log() {
	level := strings.ToLower(r.get("LOG_LEVEL"))
	switch level {
	case "panic", "fatal":
		level = "error"
	case "warning":
		level = "warn"
	case "trace":
		level = "debug"
	}
	r.set("log-level", level, "LOG_LEVEL")
	r.set("log-format", strings.ToLower(r.get("LOG_FORMAT")), "LOG_FORMAT")
}

// rules sets the folder of rule files.
func (r *envoyReader) rules() {
	var path []string
	for _, name := range []string{"RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "RUNTIME_APPDIRECTORY"} {
		if part := r.get(name); part != "" {
			path = append(path, strings.TrimRight(part, "/"))
		}
	}
	// The setting is a list, so a comma would separate two folders.
	folder := strings.Join(path, "/")
	if strings.Contains(folder, ",") {
		r.fault("RUNTIME_ROOT", fmt.Sprintf("the folder %q has a comma in its name", folder), "rename it")
		return
	}
	r.set("rules", folder, "RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "RUNTIME_APPDIRECTORY")
	which := "all"
	if r.is("RUNTIME_IGNOREDOTFILES") {
		which = "visible"
	}
	r.set("rules-files", which, "RUNTIME_IGNOREDOTFILES")
	r.set("rules-merge", fmt.Sprint(r.is("MERGE_DOMAIN_CONFIG")), "MERGE_DOMAIN_CONFIG")
}

func (r *envoyReader) protocol() {
	headers := "none"
	if r.is("LIMIT_RESPONSE_HEADERS_ENABLED") {
		headers = "envoy"
	}
	r.set("rls-headers", headers, "LIMIT_RESPONSE_HEADERS_ENABLED")
	r.same("rls-header-limit", "LIMIT_LIMIT_HEADER")
	r.same("rls-header-remaining", "LIMIT_REMAINING_HEADER")
	r.same("rls-header-reset", "LIMIT_RESET_HEADER")
	for _, pair := range [][2]string{
		{"rls-shadow", "SHADOW_MODE"}, {"rls-quota", "QUOTA_MODE"}, {"rls-metadata", "RESPONSE_DYNAMIC_METADATA"},
	} {
		r.set(pair[0], fmt.Sprint(r.is(pair[1])), pair[1])
	}
}

func (r *envoyReader) statistics() {
	r.same("near-limit-ratio", "NEAR_LIMIT_RATIO")
	if r.is("USE_PROMETHEUS") {
		r.set("envoy-stats", "true", "USE_PROMETHEUS")
		r.same("metrics", "PROMETHEUS_ADDR")
		r.same("metrics-path", "PROMETHEUS_PATH")
	}
	if r.is("DISABLE_STATS") {
		r.set("statsd", "", "DISABLE_STATS")
		return
	}
	scheme := r.get("STATSD_PROTOCOL")
	if scheme != "tcp" && scheme != "udp" {
		r.fault("STATSD_PROTOCOL", fmt.Sprintf("unknown protocol %q", scheme), "use tcp or udp")
		return
	}
	switch {
	case r.is("USE_DOG_STATSD"):
		scheme = "dogstatsd"
	case r.is("USE_PROMETHEUS") && r.given["USE_STATSD"] == "", !r.is("USE_STATSD"):
		return
	}
	r.set("statsd", scheme+"://"+r.address("STATSD_HOST", "STATSD_PORT"), "STATSD_HOST", "STATSD_PORT")
	r.same("statsd-interval", "STATS_FLUSH_INTERVAL")
	r.same("statsd-tags", "EXTRA_TAGS")
}
