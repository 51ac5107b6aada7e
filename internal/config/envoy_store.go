package config

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"

	texts "stint/internal/text"
)

// store makes one URL from the variables for Redis, or for memcached. If none is set, counts stay in memory, because
// there is no Redis proxy of Lyft on this machine.
func (r *envoyReader) store() {
	if prefix := r.get("CACHE_KEY_PREFIX"); prefix != "" {
		r.set("namespace", namespace(prefix), "CACHE_KEY_PREFIX")
	}
	if strings.EqualFold(r.get("BACKEND_TYPE"), "memcache") {
		r.memcached()
		return
	}
	address, given := r.given["REDIS_URL"]
	if !given || r.faulty["REDIS_TYPE"] || r.faulty["REDIS_SOCKET_TYPE"] {
		return
	}
	if strings.Contains(address, "://") {
		r.set("store", address, "REDIS_URL")
		return
	}
	u := url.URL{Scheme: "redis", Host: address, User: user(r.get("REDIS_AUTH"))}
	query := url.Values{}
	if r.is("REDIS_TLS") {
		u.Scheme = "rediss"
		r.certificates(query, "REDIS")
		if r.is("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION") {
			query.Set("verify", "chain")
		}
	}
	switch kind := strings.ToLower(r.get("REDIS_TYPE")); {
	case kind == "sentinel":
		master, sentinels, found := strings.Cut(address, ",")
		if !found {
			r.fault("REDIS_URL", "REDIS_TYPE is sentinel and there is no comma", "write MASTER,HOST:PORT,HOST:PORT")
			return
		}
		u.Scheme, u.Host = u.Scheme+"+sentinel", sentinels
		query.Set("master", master)
		if auth := user(r.get("REDIS_SENTINEL_AUTH")); auth != nil {
			password, _ := auth.Password()
			query.Set("sentinel_user", auth.Username())
			query.Set("sentinel_password", password)
		}
	case kind == "cluster":
		u.Scheme += "+cluster"
	case r.get("REDIS_SOCKET_TYPE") == "unix":
		u.Scheme, u.Host, u.Path = u.Scheme+"+unix", "", address
		if !strings.HasPrefix(address, "/") {
			r.fault("REDIS_URL", "REDIS_SOCKET_TYPE is unix, and this is not the path of a socket",
				"set REDIS_SOCKET_TYPE to tcp, or write a path that begins with a slash")
			return
		}
	case strings.Contains(address, ","):
		r.fault("REDIS_URL", "several servers, and REDIS_TYPE is single", "set REDIS_TYPE to cluster or sentinel")
		return
	}
	u.RawQuery = query.Encode()
	r.set("store", u.String(), "REDIS_URL")
}

// memcached makes one URL from the variables for memcached.
func (r *envoyReader) memcached() {
	u := url.URL{Scheme: "memcached", Host: r.get("MEMCACHE_HOST_PORT")}
	if u.Host == "" {
		r.fault("MEMCACHE_HOST_PORT", "BACKEND_TYPE is memcache and this is not set", "name the servers: HOST:PORT,HOST:PORT")
		return
	}
	query := url.Values{}
	if r.is("MEMCACHE_TLS") {
		u.Scheme = "memcacheds"
		r.certificates(query, "MEMCACHE")
	}
	u.RawQuery = query.Encode()
	r.set("store", u.String(), "MEMCACHE_HOST_PORT")
}

// shortened is how many bytes remain for the name in a namespace with a hash.
const shortened = 48

// namespace returns a namespace for any prefix of keys: the prefix itself if it is a valid
// namespace, else its valid characters and a part of its SHA-256, so that different prefixes stay
// different.
func namespace(prefix string) string {
	if problem, _ := texts.CheckNamespace(prefix); problem == "" {
		return prefix
	}
	plain := strings.Map(func(c rune) rune {
		if c < 0x80 && strings.ContainsRune("._-", c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, prefix)
	sum := sha256.Sum256([]byte(prefix))
	return plain[:min(len(plain), shortened)] + "." + hex.EncodeToString(sum[:6])
}

// certificates adds the files for TLS connections to a kind of server to the query.
func (r *envoyReader) certificates(query url.Values, kind string) {
	for name, variable := range map[string]string{"ca": "_TLS_CACERT", "cert": "_TLS_CLIENT_CERT", "key": "_TLS_CLIENT_KEY"} {
		if path := r.get(kind + variable); path != "" {
			query.Set(name, path)
		}
	}
}

// user splits USER:PASSWORD; a text without a colon is a password.
func user(auth string) *url.Userinfo {
	if auth == "" {
		return nil
	}
	name, password, found := strings.Cut(auth, ":")
	if !found {
		name, password = "", auth
	}
	return url.UserPassword(name, password)
}
