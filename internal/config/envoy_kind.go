package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// envoyWords has the words of the kinds that allow only some; case does not matter.
var envoyWords = map[envoyKind][]string{
	logLevel:   {"panic", "fatal", "error", "warn", "warning", "info", "debug", "trace"},
	logFormat:  {"text", "json"},
	socketType: {"tcp", "unix"},
	redisType:  {"single", "sentinel", "cluster"},
	waitOnly:   {"wait"},
	fileOnly:   {"file"},
	backend:    {"redis", "memcache"},
}

// check returns the problem of a value; "" if there is none.
func (k envoyKind) check(value string) (problem, hint string) {
	if known := envoyWords[k]; known != nil {
		if slices.Contains(known, strings.ToLower(value)) {
			return "", ""
		}
		return k.refuse(value, known)
	}
	var err error
	what := ""
	switch k {
	case booleanKind:
		_, err = strconv.ParseBool(value)
		what = "true or false"
	case numberKind:
		_, err = strconv.ParseInt(value, 10, 64)
		what = "a whole number"
	case ratioKind:
		_, err = strconv.ParseFloat(value, 64)
		what = "a number such as 0.8"
	case portKind:
		_, err = strconv.ParseUint(value, 10, 16)
		what = "a port between 0 and 65535"
	case durationKind:
		if _, err = time.ParseDuration(value); err != nil && value == "0" {
			err = nil
		}
		what = "a time such as 150us, 10s or 24h"
	}
	if err != nil {
		return fmt.Sprintf("%q is not %s", value, what), "write " + what
	}
	return "", ""
}

// refuse returns the problem of a word that is not among known.
func (k envoyKind) refuse(value string, known []string) (problem, hint string) {
	switch {
	case k == fileOnly && strings.EqualFold(value, "GRPC_XDS_SOTW"):
		return "rules over xDS are not built yet", "let rules come from files, and set CONFIG_TYPE to FILE"
	case k == waitOnly:
		return fmt.Sprintf("unknown value %q; envoyproxy/ratelimit would not start with it either", value), "remove the variable"
	}
	return fmt.Sprintf("unknown value %q", value), "use " + strings.Join(known, ", ")
}

// truth converts a value that check has accepted to a bool.
func truth(value string) bool {
	yes, err := strconv.ParseBool(value)
	return err == nil && yes
}
