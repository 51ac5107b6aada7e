// Package config reads settings. setting.go, address.go and words.go have the kinds of values that
// a program is configured with. They convert text to and from fields and check it at once.
//
// The files envoy_*.go convert the environment variables of envoyproxy/ratelimit to settings, so
// that a deployment can swap the image and keep its environment. [EnvoyVariables] is a table of
// them, and [ReadEnvoy] converts an environment into values of settings. It reads nothing else from
// the environment, and nothing from files or the network.
//
// [Watcher] reports when files or folders of rules may have changed.
package config
