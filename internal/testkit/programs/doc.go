// Package programs runs for tests what stands around a service: real programs such as the service
// itself, which can be stopped and frozen, and proxies in front of it or of a small backend; a
// Chromium, which shows a page ([Browse]) or is driven step by step ([StartBrowser]); and an
// OpenTelemetry [Collector], which keeps what it receives. [RLSClient] calls a server with Envoy's
// rate limit protocol, like Envoy. A test package that calls [Build] must have a TestMain which
// calls [Main].
package programs
