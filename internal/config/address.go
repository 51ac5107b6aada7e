package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Address is a setting with HOST:PORT, :PORT, or an empty text.
func Address(field *string) Value { return &text{field, CheckAddress} }

// Socket is a setting with an Address, or unix:PATH for a Unix socket.
func Socket(field *string) Value { return &socket{text{field, checkSocket}} }

// socket is an address or the path of a Unix socket.
type socket struct{ text }

// unixPrefix is the prefix of a Unix socket.
const unixPrefix = "unix:"

// PathIn returns the path in the text of a value, and the text before the path; "" if it has no
// path.
func PathIn(v Value, given string) (prefix, name string) {
	switch v := v.(type) {
	case *path:
		return "", given
	case *list:
		if v.paths {
			return "", given
		}
	case *socket:
		if name, ok := strings.CutPrefix(given, unixPrefix); ok && !strings.HasPrefix(name, "@") {
			return unixPrefix, name
		}
	}
	return "", ""
}

// CheckAddress returns an error if s is no valid Address.
func CheckAddress(s string) error {
	if s == "" {
		return nil
	}
	const hint = "write HOST:PORT such as 127.0.0.1:8080, or nothing to switch the listener off"
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return Fault(fmt.Sprintf("%q is not an address", s), hint)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return Fault(fmt.Sprintf("%q has no port between 0 and 65535", s), hint)
	}
	return nil
}

// longestPath is the most bytes of a socket's path on Linux; other systems allow less.
const longestPath = 107

func checkSocket(s string) error {
	path, isUnix := strings.CutPrefix(s, unixPrefix)
	switch {
	case !isUnix:
		return CheckAddress(s)
	case path == "":
		return Fault("a socket without a path", "write unix:PATH, such as unix:/run/stint.sock")
	case len(path) > longestPath:
		return Fault(fmt.Sprintf("the path of a socket has %d bytes", len(path)), fmt.Sprintf("the system takes at most %d: choose a shorter path", longestPath))
	}
	return nil
}

// Prefix parses a prefix of addresses, or an address as the prefix of its full length.
func Prefix(s string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, Fault(fmt.Sprintf("%q is neither an address nor a prefix", s), "write 10.0.0.1, 10.0.0.0/8 or 2001:db8::/32")
	}
	return p.Masked(), nil
}
