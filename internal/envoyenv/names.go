package envoyenv

// Use says what becomes of a variable.
type Use uint8

// What becomes of a variable.
const (
	Used     Use = iota // it becomes a setting of ours, together with others where Note says so
	Needless            // what it is for happens without it
	Ignored             // there is nothing like it here
)

// String returns the word that people see.
func (u Use) String() string {
	return [...]string{"used", "needless", "ignored"}[u]
}

// A Variable is one of the names that envoyproxy/ratelimit reads.
type Variable struct {
	Name    string
	Default string // there; here too where the variable is used
	Use     Use
	Setting string // of ours, as the flag without its dashes; "" where there is none
	Note    string // what it becomes, or why it is nothing

	kind kind // what values it takes
}

// A kind of value.
type kind uint8

const (
	text kind = iota
	boolean
	number
	ratio
	duration
	port
	logLevel
	logFormat
	socketType
	redisType
	waitOnly
	fileOnly
	redisOnly
	secret
)

// Notes that several variables share.
const (
	noXDS       = "rules come from files; xDS is not built yet"
	noMemcached = "Memcached as a store is not built yet"
	noTracing   = "tracing is not built yet"
	oneRedis    = "all limits count in the one store"
	onePipe     = "one connection carries what all requests ask, so there is no pool and no window to tune"
	noWait      = "the service starts without Redis and looks for it each second; until then rules are answered by on_store_failure"
)

// Variables returns all of them, grouped as there. The slice must not be changed.
func Variables() []Variable { return variables }

var variables = []Variable{
	{"HOST", "0.0.0.0", Used, "http", "with PORT", text},
	{"PORT", "8080", Used, "http", "with HOST: /json, /healthcheck and our own paths", port},
	{"DEBUG_HOST", "0.0.0.0", Used, "admin", "with DEBUG_PORT; 127.0.0.1 while no admin token guards it", text},
	{"DEBUG_PORT", "6070", Used, "admin", "with DEBUG_HOST: /rlconfig, /metrics and our own paths", port},
	{"GRPC_UDS", "", Used, "grpc", "unix:PATH instead of GRPC_HOST and GRPC_PORT", text},
	{"GRPC_HOST", "0.0.0.0", Used, "grpc", "with GRPC_PORT", text},
	{"GRPC_PORT", "8081", Used, "grpc", "with GRPC_HOST", port},
	{"GRPC_MAX_CONNECTION_AGE", "24h", Used, "grpc-max-age", "the same", duration},
	{"GRPC_MAX_CONNECTION_AGE_GRACE", "1h", Used, "grpc-max-age-grace", "the same", duration},
	{"GRPC_SERVER_USE_TLS", "false", Used, "grpc-tls-cert", "switches the TLS names on", boolean},
	{"GRPC_SERVER_TLS_CERT", "", Used, "grpc-tls-cert", "read again when it changes, as there", text},
	{"GRPC_SERVER_TLS_KEY", "", Used, "grpc-tls-key", "it may lie in another folder than the certificate", text},
	{"GRPC_CLIENT_TLS_CACERT", "", Used, "grpc-tls-client-ca", "read again when it changes", text},
	{"GRPC_CLIENT_TLS_SAN", "", Used, "grpc-tls-client-name", "the same", text},
	{"LOG_LEVEL", "WARN", Used, "log-level", "panic and fatal become error, trace becomes debug", logLevel},
	{"LOG_FORMAT", "text", Used, "log-format", "the same", logFormat},

	{"CONFIG_TYPE", "FILE", Used, "", "FILE is what there is; GRPC_XDS_SOTW is refused, xDS is not built yet", fileOnly},
	{"FORCE_START_WITHOUT_INITIAL_CONFIG", "false", Ignored, "", "without good rules the service does not start, and says why", boolean},
	{"CONFIG_GRPC_XDS_NODE_ID", "default", Ignored, "", noXDS, text},
	{"CONFIG_GRPC_XDS_NODE_METADATA", "", Ignored, "", noXDS, text},
	{"CONFIG_GRPC_XDS_SERVER_URL", "localhost:18000", Ignored, "", noXDS, text},
	{"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "3s", Ignored, "", noXDS, duration},
	{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "", Ignored, "", noXDS, text},
	{"CONFIG_GRPC_XDS_SERVER_USE_TLS", "false", Ignored, "", noXDS, boolean},
	{"CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "", Ignored, "", noXDS, text},
	{"CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "", Ignored, "", noXDS, text},
	{"CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "", Ignored, "", noXDS, text},
	{"CONFIG_GRPC_XDS_SERVER_TLS_SAN", "", Ignored, "", noXDS, text},
	{"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "10s", Ignored, "", noXDS, duration},
	{"XDS_CLIENT_BACKOFF_MAX_INTERVAL", "60s", Ignored, "", noXDS, duration},
	{"XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "0.5", Ignored, "", noXDS, ratio},
	{"XDS_CLIENT_BACKOFF_JITTER", "true", Ignored, "", noXDS, boolean},
	{"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "", Ignored, "", noXDS, number},
	{"RUNTIME_ROOT", "/srv/runtime_data/current", Used, "rules", "rules are all files below RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY", text},
	{"RUNTIME_SUBDIRECTORY", "", Used, "rules", "part of that folder", text},
	{"RUNTIME_APPDIRECTORY", "config", Used, "rules", "part of that folder", text},
	{"RUNTIME_IGNOREDOTFILES", "false", Used, "rules-files", "visible where it is true, else all; a file that links reach twice is read once", boolean},
	{"RUNTIME_WATCH_ROOT", "true", Needless, "", "a swap of a link and a change in the folder are both noticed", boolean},
	{"MERGE_DOMAIN_CONFIG", "false", Used, "rules-merge", "the same", boolean},

	{"USE_DOG_STATSD", "false", Used, "statsd", "dogstatsd://STATSD_HOST:STATSD_PORT, over UDP", boolean},
	{"USE_DOG_STATSD_MOGRIFIERS", "", Ignored, "", "names are sent as they are; rename them where they arrive", text},
	{"USE_STATSD", "true", Used, "statsd", "with STATSD_HOST, STATSD_PORT and STATSD_PROTOCOL", boolean},
	{"STATSD_HOST", "localhost", Used, "statsd", "with USE_STATSD", text},
	{"STATSD_PORT", "8125", Used, "statsd", "with USE_STATSD", port},
	{"STATSD_PROTOCOL", "tcp", Used, "statsd", "tcp or udp, with USE_STATSD", text},
	{"EXTRA_TAGS", "", Used, "statsd-tags", "NAME:VALUE, with commas", text},
	{"STATS_FLUSH_INTERVAL", "10s", Used, "statsd-interval", "the same", duration},
	{"DISABLE_STATS", "false", Used, "statsd", "nothing is sent; /metrics on the admin address stays", boolean},
	{"USE_PROMETHEUS", "false", Used, "metrics", "an address for /metrics alone, with the names of envoyproxy/ratelimit beside ours (envoy-stats)", boolean},
	{"PROMETHEUS_ADDR", ":9090", Used, "metrics", "with USE_PROMETHEUS", text},
	{"PROMETHEUS_PATH", "/metrics", Used, "metrics-path", "with USE_PROMETHEUS", text},
	{"PROMETHEUS_MAPPER_YAML", "", Ignored, "", "names are those of the default mapping; rename them where they are read", text},
	{"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", "false", Ignored, "", "stint_decision_seconds is a histogram of seconds", boolean},

	{"EXPIRATION_JITTER_MAX_SECONDS", "300", Needless, "", "a key expires when its state is as if never touched", number},
	{"LOCAL_CACHE_SIZE_IN_BYTES", "0", Ignored, "", "denied hits count, so each request asks Redis; in a domain with atomic: true refusals are remembered (remember-refusals)", number},
	{"NEAR_LIMIT_RATIO", "0.8", Used, "near-limit-ratio", "for the near_limit statistics", ratio},
	{"CACHE_KEY_PREFIX", "", Used, "namespace", "stands before every key; empty is stint, and other characters than letters, digits, dots, dashes and underscores become a hash", text},
	{"BACKEND_TYPE", "redis", Used, "", "redis is what there is; memcache is refused, " + noMemcached, redisOnly},
	{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "false", Ignored, "", "limits count as where it is false; a rule file that says atomic: true charges a request that one limit denies to none", boolean},
	{"LIMIT_RESPONSE_HEADERS_ENABLED", "false", Used, "rls-headers", "envoy where it is true, else none", boolean},
	{"LIMIT_LIMIT_HEADER", "RateLimit-Limit", Used, "rls-header-limit", "the same", text},
	{"LIMIT_REMAINING_HEADER", "RateLimit-Remaining", Used, "rls-header-remaining", "the same", text},
	{"LIMIT_RESET_HEADER", "RateLimit-Reset", Used, "rls-header-reset", "the same", text},
	{"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "false", Needless, "", "the service never runs without good rules", boolean},
	{"SHADOW_MODE", "false", Used, "rls-shadow", "the same, read at the start", boolean},
	{"QUOTA_MODE", "false", Used, "rls-quota", "the same, but descriptors without a limit have no say", boolean},
	{"RESPONSE_DYNAMIC_METADATA", "false", Used, "rls-metadata", "the same, read at the start", boolean},

	{"REDIS_SOCKET_TYPE", "unix", Used, "store", "unix makes REDIS_URL the path of a socket", socketType},
	{"REDIS_TYPE", "SINGLE", Used, "store", "single, sentinel or cluster", redisType},
	{"REDIS_URL", "/var/run/nutcracker/ratelimit.sock", Used, "store", "with the other names of Redis; unset: counts stay in this process (memory)", text},
	{"REDIS_POOL_SIZE", "10", Needless, "", onePipe, number},
	{"REDIS_AUTH", "", Used, "store", "PASSWORD or USER:PASSWORD", secret},
	{"REDIS_TLS", "false", Used, "store", "rediss instead of redis", boolean},
	{"REDIS_TLS_CLIENT_CERT", "", Used, "store", "cert=", text},
	{"REDIS_TLS_CLIENT_KEY", "", Used, "store", "key=", text},
	{"REDIS_TLS_CACERT", "", Used, "store", "ca=", text},
	{"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", "false", Used, "store", "verify=chain", boolean},
	{"REDIS_PIPELINE_WINDOW", "0", Needless, "", onePipe, duration},
	{"REDIS_PIPELINE_LIMIT", "0", Needless, "", onePipe, number},
	{"REDIS_CLUSTER_PIPELINE_PARALLELISM", "1", Needless, "", "all servers of a Cluster are asked at once", number},
	{"REDIS_SENTINEL_AUTH", "", Used, "store", "sentinel_user= and sentinel_password=", secret},
	{"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "false", Ignored, "", "without Redis the service stays ready, as rules say what is answered then", boolean},
	{"REDIS_TIMEOUT", "10s", Ignored, "", "there it bounds dialling only; here store-timeout bounds each decision, 10ms where nobody says otherwise", duration},
	{"REDIS_POOL_ON_EMPTY_BEHAVIOR", "WAIT", Needless, "", onePipe, waitOnly},
	{"REDIS_STARTUP_INITIAL_INTERVAL", "1s", Needless, "", noWait, duration},
	{"REDIS_STARTUP_MAX_INTERVAL", "30s", Needless, "", noWait, duration},
	{"REDIS_STARTUP_MAX_ELAPSED_TIME", "0", Needless, "", noWait, duration},
	{"REDIS_PERSECOND", "false", Ignored, "", oneRedis, boolean},
	{"REDIS_PERSECOND_SOCKET_TYPE", "unix", Ignored, "", oneRedis, socketType},
	{"REDIS_PERSECOND_TYPE", "SINGLE", Ignored, "", oneRedis, redisType},
	{"REDIS_PERSECOND_URL", "/var/run/nutcracker/ratelimitpersecond.sock", Ignored, "", oneRedis, text},
	{"REDIS_PERSECOND_POOL_SIZE", "10", Ignored, "", oneRedis, number},
	{"REDIS_PERSECOND_AUTH", "", Ignored, "", oneRedis, secret},
	{"REDIS_PERSECOND_TLS", "false", Ignored, "", oneRedis, boolean},
	{"REDIS_PERSECOND_PIPELINE_WINDOW", "0", Ignored, "", oneRedis, duration},
	{"REDIS_PERSECOND_PIPELINE_LIMIT", "0", Ignored, "", oneRedis, number},
	{"REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM", "1", Ignored, "", oneRedis, number},
	{"REDIS_PERSECOND_SENTINEL_AUTH", "", Ignored, "", oneRedis, secret},
	{"REDIS_PERSECOND_TIMEOUT", "10s", Ignored, "", oneRedis, duration},
	{"REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR", "WAIT", Ignored, "", oneRedis, waitOnly},

	{"MEMCACHE_HOST_PORT", "", Ignored, "", noMemcached, text},
	{"MEMCACHE_MAX_IDLE_CONNS", "2", Ignored, "", noMemcached, number},
	{"MEMCACHE_SRV", "", Ignored, "", noMemcached, text},
	{"MEMCACHE_SRV_REFRESH", "0", Ignored, "", noMemcached, duration},
	{"MEMCACHE_TLS", "false", Ignored, "", noMemcached, boolean},
	{"MEMCACHE_TLS_CLIENT_CERT", "", Ignored, "", noMemcached, text},
	{"MEMCACHE_TLS_CLIENT_KEY", "", Ignored, "", noMemcached, text},
	{"MEMCACHE_TLS_CACERT", "", Ignored, "", noMemcached, text},
	{"MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION", "false", Ignored, "", noMemcached, boolean},

	{"TRACING_ENABLED", "false", Ignored, "", noTracing, boolean},
	{"TRACING_SERVICE_NAME", "RateLimit", Ignored, "", noTracing, text},
	{"TRACING_SERVICE_NAMESPACE", "", Ignored, "", noTracing, text},
	{"TRACING_SERVICE_INSTANCE_ID", "", Ignored, "", noTracing, text},
	{"TRACING_EXPORTER_PROTOCOL", "http", Ignored, "", noTracing, text},
	{"TRACING_SAMPLING_RATE", "1", Ignored, "", noTracing, ratio},
}
