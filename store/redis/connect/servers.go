package connect

import (
	"fmt"
	"slices"
	"strings"
)

// Server is one of the servers, or of the groups of servers, that a URL names.
type Server struct {
	// Name is HOST:PORT, by which all nodes know the server; of Sentinels and of a
	// Cluster it is the URL without passwords.
	Name string

	// URL names this server alone, for redis.Open.
	URL string
}

// Servers returns what a URL names, in its order:
//
//	redis://HOST:PORT,HOST:PORT/DB   servers that know nothing of each other, each of which
//	                                 keeps some of the keys (see package shard)
//
// and any URL that redis.Open takes, which is one Server. What stands before and behind the
// hosts is for all of them. An error shows no password.
func Servers(text string) ([]Server, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	before, hosts, after := split(rest)
	if strings.Contains(scheme, "+") || !strings.Contains(hosts, ",") {
		one, err := server(text)
		return []Server{one}, err
	}
	var list []Server
	for host := range strings.SplitSeq(hosts, ",") {
		one, err := server(scheme + "://" + before + strings.TrimSpace(host) + after)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(list, func(s Server) bool { return s.Name == one.Name }) {
			return nil, &URLError{Problem: fmt.Sprintf("server %s is named twice", one.Name), Hint: "name each server once"}
		}
		list = append(list, one)
	}
	return list, nil
}

// server returns what a URL names that redis.Open takes.
func server(text string) (Server, error) {
	target, err := ParseURL(text)
	if err != nil {
		return Server{}, err
	}
	if target.ForceSingleClient && target.DialCtxFn == nil {
		return Server{strings.ToLower(target.InitAddress[0]), text}, nil
	}
	return Server{RedactURL(text), text}, nil
}

// split returns what stands before the hosts of a URL without its scheme, the hosts,
// and what stands behind them.
func split(rest string) (before, hosts, after string) {
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	at := strings.LastIndexByte(rest[:end], '@') + 1
	return rest[:at], rest[at:end], rest[end:]
}
