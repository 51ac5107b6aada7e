// Package programs runs real programs for tests: the service, which can be stopped and frozen, and
// proxies in front of it or of a small backend. A test package that uses it must have a TestMain
// which calls [Main]. [RLSClient] calls a server with Envoy's rate limit protocol, like Envoy.
package programs
