package connect

import (
	"fmt"
	"slices"
	"strings"
)

// Server is one of the servers, or groups of servers, of a URL.
type Server struct {
	// Name is HOST:PORT, the same on all nodes; for Sentinels and a Cluster it is the URL without
	// passwords.
	Name string

	// URL is the URL of this server alone, for redis.Open.
	URL string
}

// Servers returns the servers of a URL, in its order:
//
//	redis://HOST:PORT,HOST:PORT/DB   independent servers, each of which
//	                                 keeps some of the keys (see package servers)
//
// and any URL that redis.Open accepts, as one Server. User, database and parameters apply to all
// hosts. Errors contain no password.
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

// server returns the Server for a URL that redis.Open accepts.
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

// split returns the hosts of a URL without its scheme, and the text before and after them.
func split(rest string) (before, hosts, after string) {
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	at := strings.LastIndexByte(rest[:end], '@') + 1
	return rest[:at], rest[at:end], rest[end:]
}
