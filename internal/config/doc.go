// Package config has what settings are made of. setting.go, address.go and words.go have the
// kinds of values that a program is configured with: text to and from fields, each checked
// where it is given.
//
// The files envoy_*.go know the environment variables of envoyproxy/ratelimit, and what each
// becomes here, so that a deployment can swap the image and keep its environment. They are a
// table, see [EnvoyVariables], and [ReadEnvoy], which turns an environment into values of our
// settings. Nothing else is read from the environment, and nothing is looked up.
//
// [Watcher] tells when files of rules, or folders of them, may have changed.
package config
