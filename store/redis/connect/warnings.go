package connect

import (
	"fmt"
	"strconv"
	"strings"
)

// Warning is a setting of a server that will cause wrong decisions some day.
type Warning struct {
	Problem string
	Hint    string
	Unsaved bool // it concerns only limits that must survive a crash of the server
}

// SavingWarnings returns the warning about a server that keeps no append-only file, by its answer to INFO.
func SavingWarnings(address, text string) []Warning {
	if parseInfo(text)["aof_enabled"] != "0" {
		return nil
	}
	return []Warning{{
		Problem: address + " keeps no append-only file (appendonly no), so a crash of it loses takes of durable rules",
		Hint:    "set appendonly yes on the server, or leave durable out of the rules",
		Unsaved: true,
	}}
}

// MemoryWarnings returns the warnings about the memory settings of a server, by its answer to INFO.
func MemoryWarnings(address, text string) []Warning {
	info := parseInfo(text)
	most, err := strconv.ParseInt(info["maxmemory"], 10, 64)
	if policy := info["maxmemory_policy"]; err == nil && most > 0 && policy != "noeviction" {
		return []Warning{{
			Problem: fmt.Sprintf("%s forgets keys when its %d bytes are full (maxmemory-policy %s), and who was over a limit starts anew", address, most, policy),
			Hint:    "set maxmemory-policy noeviction, give limits a server of their own, and watch used_memory",
		}}
	}
	return nil
}

// parseInfo parses the answer of INFO.
func parseInfo(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}
