// Package programs runs real programs for tests: the service, which can be stopped and frozen,
// and proxies before it or before a small backend. A test package that uses it has a TestMain
// which calls [Main]. [RLSClient] asks a server in Envoy's rate limit protocol, as Envoy does.
package programs
