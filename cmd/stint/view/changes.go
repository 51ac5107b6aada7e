package view

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"stint/internal/text"
)

// named are the fields of a record that an entry shows elsewhere.
var named = []string{"subject", "target", "rule", "network", "hash", "last", "until", "why", "id", "descriptor", "config"}

// Changes returns the fields of two JSON objects that differ, such as "requests 100 -> 1000".
func Changes(before, after json.RawMessage) string {
	old, next := FieldsOf(before), FieldsOf(after)
	all := maps.Clone(old)
	maps.Copy(all, next)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		was, is := old[name], next[name]
		switch {
		case was == is || slices.Contains(named, name):
		case before == nil || was == "":
			parts = append(parts, name+" "+is)
		case after == nil:
			parts = append(parts, name+" was "+was)
		default:
			parts = append(parts, name+" "+was+" -> "+OrDash(is))
		}
	}
	return strings.Join(parts, ", ")
}

// FieldsOf returns the fields of a JSON object as texts.
func FieldsOf(object json.RawMessage) map[string]string {
	var values map[string]json.RawMessage
	_ = json.Unmarshal(object, &values) // what is no object has no fields to show
	fields := map[string]string{}
	for name, value := range values {
		fields[name] = strings.Trim(string(value), `"`)
		if ns, err := strconv.ParseInt(fields[name], 10, 64); err == nil && name == "per" {
			fields[name] = text.FormatDuration(time.Duration(ns))
		}
	}
	return fields
}
