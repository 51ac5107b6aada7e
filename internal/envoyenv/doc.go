// Package envoyenv knows the environment variables of envoyproxy/ratelimit, and what
// each becomes here, so that a deployment can swap the image and keep its environment.
//
// It is a table, see [Variables], and [Read], which turns an environment into values of
// our settings. Nothing else is read from the environment, and nothing is looked up.
package envoyenv
