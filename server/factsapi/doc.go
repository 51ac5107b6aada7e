// Package factsapi serves what is known about rules and their keys as JSON, and live.
package factsapi
