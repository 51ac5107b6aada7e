// Package connect connects to Redis servers. It parses URLs (url.go, servers.go, tls.go,
// credentials.go), keeps a client for each server (link.go), finds the server of a Cluster that
// holds a key (slots.go, slot_map.go), and explains errors (fault.go).
package connect
