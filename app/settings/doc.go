// Package settings is the configuration of the service: flags, environment variables and the config
// file, each value checked where it is given.
package settings
