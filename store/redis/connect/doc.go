// Package connect reaches Redis servers: it reads from a URL where they are and how to talk to
// them (url.go, servers.go, tls.go, credentials.go), keeps a connection to each (link.go), finds
// the server of a Cluster that has a key (slots.go, slot_map.go), and explains their errors
// (fault.go).
package connect
