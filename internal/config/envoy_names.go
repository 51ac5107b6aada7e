package config

// Use is how a variable is used.
type Use uint8

// The uses of a variable.
const (
	Used     Use = iota // it sets a setting, maybe together with the variables in Note
	Needless            // its effect happens without it
	Ignored             // there is no such feature here
)

// String returns the word for reports.
func (u Use) String() string {
	return [...]string{"used", "needless", "ignored"}[u]
}

// EnvoyVariable is one of the variables that envoyproxy/ratelimit reads.
type EnvoyVariable struct {
	Name    string
	Default string // default of envoyproxy/ratelimit, which applies here too if the variable is used
	Use     Use
	Setting string // name of the setting, which is the flag without its dashes; "" if there is none
	Note    string // how it is converted, or why it is not used

	kind envoyKind // the values that it may have
}

// envoyKind is a kind of value.
type envoyKind uint8

const (
	textKind envoyKind = iota
	booleanKind
	numberKind
	ratioKind
	durationKind
	portKind
	logLevel
	logFormat
	socketType
	redisType
	waitOnly
	fileOnly
	backend
	secretKind
)

// Notes that several variables share.
const (
	noXDS     = "rules come from files; xDS is not built yet"
	noLookUp  = "name the servers in MEMCACHE_HOST_PORT"
	noTracing = "tracing is not built yet"
	oneRedis  = "all limits count in the one store"
	onePipe   = "one connection carries what all requests ask, so there is no pool and no window to tune"
	noWait    = "the service starts without Redis and looks for it each second; until then rules are answered by on_store_failure"
)

// EnvoyVariables returns all variables, in the groups of envoyproxy/ratelimit. Callers must not
// change the slice.
func EnvoyVariables() []EnvoyVariable { return envoyVariables }

var envoyVariables = []EnvoyVariable{
	{"HOST", "0.0.0.0", Used, "http", "with PORT", textKind},
	{"PORT", "8080", Used, "http", "with HOST: /json, /healthcheck and our own paths", portKind},
	{"DEBUG_HOST", "0.0.0.0", Used, "admin", "with DEBUG_PORT; 127.0.0.1 while no admin token guards it", textKind},
	{"DEBUG_PORT", "6070", Used, "admin", "with DEBUG_HOST: /rlconfig, /metrics and our own paths", portKind},
	{"GRPC_UDS", "", Used, "grpc", "unix:PATH instead of GRPC_HOST and GRPC_PORT", textKind},
	{"GRPC_HOST", "0.0.0.0", Used, "grpc", "with GRPC_PORT", textKind},
	{"GRPC_PORT", "8081", Used, "grpc", "with GRPC_HOST", portKind},
	{"GRPC_MAX_CONNECTION_AGE", "24h", Used, "grpc-max-age", "the same", durationKind},
	{"GRPC_MAX_CONNECTION_AGE_GRACE", "1h", Used, "grpc-max-age-grace", "the same", durationKind},
	{"GRPC_SERVER_USE_TLS", "false", Used, "grpc-tls-cert", "switches the TLS names on", booleanKind},
	{"GRPC_SERVER_TLS_CERT", "", Used, "grpc-tls-cert", "read again when it changes, as there", textKind},
	{"GRPC_SERVER_TLS_KEY", "", Used, "grpc-tls-key", "it may lie in another folder than the certificate", textKind},
	{"GRPC_CLIENT_TLS_CACERT", "", Used, "grpc-tls-client-ca", "read again when it changes", textKind},
	{"GRPC_CLIENT_TLS_SAN", "", Used, "grpc-tls-client-name", "the same", textKind},
	{"LOG_LEVEL", "WARN", Used, "log-level", "panic and fatal become error, trace becomes debug", logLevel},
	{"LOG_FORMAT", "text", Used, "log-format", "the same", logFormat},

	{"CONFIG_TYPE", "FILE", Used, "", "only FILE is supported; GRPC_XDS_SOTW is refused, xDS is not built yet", fileOnly},
	{"FORCE_START_WITHOUT_INITIAL_CONFIG", "false", Ignored, "", "without valid rules the service does not start, and logs the reason", booleanKind},
	{"CONFIG_GRPC_XDS_NODE_ID", "default", Ignored, "", noXDS, textKind},
	{"CONFIG_GRPC_XDS_NODE_METADATA", "", Ignored, "", noXDS, textKind},
	{"CONFIG_GRPC_XDS_SERVER_URL", "localhost:18000", Ignored, "", noXDS, textKind},
	{"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "3s", Ignored, "", noXDS, durationKind},
	{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "", Ignored, "", noXDS, textKind},
	{"CONFIG_GRPC_XDS_SERVER_USE_TLS", "false", Ignored, "", noXDS, booleanKind},
	{"CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "", Ignored, "", noXDS, textKind},
	{"CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "", Ignored, "", noXDS, textKind},
	{"CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "", Ignored, "", noXDS, textKind},
	{"CONFIG_GRPC_XDS_SERVER_TLS_SAN", "", Ignored, "", noXDS, textKind},
	{"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "10s", Ignored, "", noXDS, durationKind},
	{"XDS_CLIENT_BACKOFF_MAX_INTERVAL", "60s", Ignored, "", noXDS, durationKind},
	{"XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "0.5", Ignored, "", noXDS, ratioKind},
	{"XDS_CLIENT_BACKOFF_JITTER", "true", Ignored, "", noXDS, booleanKind},
	{"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "", Ignored, "", noXDS, numberKind},
	{"RUNTIME_ROOT", "/srv/runtime_data/current", Used, "rules", "rules are all files below RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY", textKind},
	{"RUNTIME_SUBDIRECTORY", "", Used, "rules", "part of that folder", textKind},
	{"RUNTIME_APPDIRECTORY", "config", Used, "rules", "part of that folder", textKind},
	{"RUNTIME_IGNOREDOTFILES", "false", Used, "rules-files", "visible where it is true, else all; a file that links reach twice is read once", booleanKind},
	{"RUNTIME_WATCH_ROOT", "true", Needless, "", "a swap of a link and a change in the folder are both noticed", booleanKind},
	{"MERGE_DOMAIN_CONFIG", "false", Used, "rules-merge", "the same", booleanKind},

	{"USE_DOG_STATSD", "false", Used, "statsd", "dogstatsd://STATSD_HOST:STATSD_PORT, over UDP", booleanKind},
	{"USE_DOG_STATSD_MOGRIFIERS", "", Ignored, "", "names are sent as they are; rename them where they arrive", textKind},
	{"USE_STATSD", "true", Used, "statsd", "with STATSD_HOST, STATSD_PORT and STATSD_PROTOCOL", booleanKind},
	{"STATSD_HOST", "localhost", Used, "statsd", "with USE_STATSD", textKind},
	{"STATSD_PORT", "8125", Used, "statsd", "with USE_STATSD", portKind},
	{"STATSD_PROTOCOL", "tcp", Used, "statsd", "tcp or udp, with USE_STATSD", textKind},
	{"EXTRA_TAGS", "", Used, "statsd-tags", "NAME:VALUE, with commas", textKind},
	{"STATS_FLUSH_INTERVAL", "10s", Used, "statsd-interval", "the same", durationKind},
	{"DISABLE_STATS", "false", Used, "statsd", "nothing is sent; /metrics on the admin address stays", booleanKind},
	{"USE_PROMETHEUS", "false", Used, "metrics", "an address for /metrics alone, with the names of envoyproxy/ratelimit beside ours (envoy-stats)", booleanKind},
	{"PROMETHEUS_ADDR", ":9090", Used, "metrics", "with USE_PROMETHEUS", textKind},
	{"PROMETHEUS_PATH", "/metrics", Used, "metrics-path", "with USE_PROMETHEUS", textKind},
	{"PROMETHEUS_MAPPER_YAML", "", Ignored, "", "names are those of the default mapping; rename them where they are read", textKind},
	{"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", "false", Ignored, "", "stint_decision_seconds is a histogram of seconds", booleanKind},

	{"EXPIRATION_JITTER_MAX_SECONDS", "300", Needless, "", "a key expires when its full limit is available again", numberKind},
	{"LOCAL_CACHE_SIZE_IN_BYTES", "0", Ignored, "", "denied hits count, so each request asks Redis; in a domain with atomic: true refusals are remembered (remember-refusals)", numberKind},
	{"NEAR_LIMIT_RATIO", "0.8", Used, "near-limit-ratio", "for the near_limit statistics", ratioKind},
	{"CACHE_KEY_PREFIX", "", Used, "namespace", "prefix of every key; empty means stint, and other characters than letters, digits, dots, dashes and underscores become a hash", textKind},
	{"BACKEND_TYPE", "redis", Used, "store", "redis or memcache", backend},
	{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "false", Ignored, "", "limits count as if it were false; with atomic: true in a rule file, a request that one limit denies is not charged to any", booleanKind},
	{"LIMIT_RESPONSE_HEADERS_ENABLED", "false", Used, "rls-headers", "envoy if it is true, else none", booleanKind},
	{"LIMIT_LIMIT_HEADER", "RateLimit-Limit", Used, "rls-header-limit", "the same", textKind},
	{"LIMIT_REMAINING_HEADER", "RateLimit-Remaining", Used, "rls-header-remaining", "the same", textKind},
	{"LIMIT_RESET_HEADER", "RateLimit-Reset", Used, "rls-header-reset", "the same", textKind},
	{"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "false", Needless, "", "the service never runs without good rules", booleanKind},
	{"SHADOW_MODE", "false", Used, "rls-shadow", "the same, read at the start", booleanKind},
	{"QUOTA_MODE", "false", Used, "rls-quota", "the same, but descriptors without a limit have no say", booleanKind},
	{"RESPONSE_DYNAMIC_METADATA", "false", Used, "rls-metadata", "the same, read at the start", booleanKind},

	{"REDIS_SOCKET_TYPE", "unix", Used, "store", "unix makes REDIS_URL the path of a socket", socketType},
	{"REDIS_TYPE", "SINGLE", Used, "store", "single, sentinel or cluster", redisType},
	{"REDIS_URL", "/var/run/nutcracker/ratelimit.sock", Used, "store", "with the other names of Redis; unset: counts stay in this process (memory)", textKind},
	{"REDIS_POOL_SIZE", "10", Needless, "", onePipe, numberKind},
	{"REDIS_AUTH", "", Used, "store", "PASSWORD or USER:PASSWORD", secretKind},
	{"REDIS_TLS", "false", Used, "store", "rediss instead of redis", booleanKind},
	{"REDIS_TLS_CLIENT_CERT", "", Used, "store", "cert=", textKind},
	{"REDIS_TLS_CLIENT_KEY", "", Used, "store", "key=", textKind},
	{"REDIS_TLS_CACERT", "", Used, "store", "ca=", textKind},
	{"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", "false", Used, "store", "verify=chain", booleanKind},
	{"REDIS_PIPELINE_WINDOW", "0", Needless, "", onePipe, durationKind},
	{"REDIS_PIPELINE_LIMIT", "0", Needless, "", onePipe, numberKind},
	{"REDIS_CLUSTER_PIPELINE_PARALLELISM", "1", Needless, "", "all servers of a Cluster are asked at once", numberKind},
	{"REDIS_SENTINEL_AUTH", "", Used, "store", "sentinel_user= and sentinel_password=", secretKind},
	{"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "false", Ignored, "", "without Redis the service stays ready, as rules say what is answered then", booleanKind},
	{"REDIS_TIMEOUT", "10s", Ignored, "", "there it limits dialling only; here store-timeout limits each decision, by default 10ms", durationKind},
	{"REDIS_POOL_ON_EMPTY_BEHAVIOR", "WAIT", Needless, "", onePipe, waitOnly},
	{"REDIS_STARTUP_INITIAL_INTERVAL", "1s", Needless, "", noWait, durationKind},
	{"REDIS_STARTUP_MAX_INTERVAL", "30s", Needless, "", noWait, durationKind},
	{"REDIS_STARTUP_MAX_ELAPSED_TIME", "0", Needless, "", noWait, durationKind},
	{"REDIS_PERSECOND", "false", Ignored, "", oneRedis, booleanKind},
	{"REDIS_PERSECOND_SOCKET_TYPE", "unix", Ignored, "", oneRedis, socketType},
	{"REDIS_PERSECOND_TYPE", "SINGLE", Ignored, "", oneRedis, redisType},
	{"REDIS_PERSECOND_URL", "/var/run/nutcracker/ratelimitpersecond.sock", Ignored, "", oneRedis, textKind},
	{"REDIS_PERSECOND_POOL_SIZE", "10", Ignored, "", oneRedis, numberKind},
	{"REDIS_PERSECOND_AUTH", "", Ignored, "", oneRedis, secretKind},
	{"REDIS_PERSECOND_TLS", "false", Ignored, "", oneRedis, booleanKind},
	{"REDIS_PERSECOND_PIPELINE_WINDOW", "0", Ignored, "", oneRedis, durationKind},
	{"REDIS_PERSECOND_PIPELINE_LIMIT", "0", Ignored, "", oneRedis, numberKind},
	{"REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM", "1", Ignored, "", oneRedis, numberKind},
	{"REDIS_PERSECOND_SENTINEL_AUTH", "", Ignored, "", oneRedis, secretKind},
	{"REDIS_PERSECOND_TIMEOUT", "10s", Ignored, "", oneRedis, durationKind},
	{"REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR", "WAIT", Ignored, "", oneRedis, waitOnly},

	{"MEMCACHE_HOST_PORT", "", Used, "store", "with BACKEND_TYPE=memcache", textKind},
	{"MEMCACHE_MAX_IDLE_CONNS", "2", Needless, "", "four connections carry what all requests ask", numberKind},
	{"MEMCACHE_SRV", "", Ignored, "", noLookUp, textKind},
	{"MEMCACHE_SRV_REFRESH", "0", Ignored, "", noLookUp, durationKind},
	{"MEMCACHE_TLS", "false", Used, "store", "memcacheds instead of memcached", booleanKind},
	{"MEMCACHE_TLS_CLIENT_CERT", "", Used, "store", "cert=", textKind},
	{"MEMCACHE_TLS_CLIENT_KEY", "", Used, "store", "key=", textKind},
	{"MEMCACHE_TLS_CACERT", "", Used, "store", "ca=", textKind},
	{"MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION", "false", Ignored, "", "the name in the certificate is always checked", booleanKind},

	{"TRACING_ENABLED", "false", Ignored, "", noTracing, booleanKind},
	{"TRACING_SERVICE_NAME", "RateLimit", Ignored, "", noTracing, textKind},
	{"TRACING_SERVICE_NAMESPACE", "", Ignored, "", noTracing, textKind},
	{"TRACING_SERVICE_INSTANCE_ID", "", Ignored, "", noTracing, textKind},
	{"TRACING_EXPORTER_PROTOCOL", "http", Ignored, "", noTracing, textKind},
	{"TRACING_SAMPLING_RATE", "1", Ignored, "", noTracing, ratioKind},
}
