package proxies

import (
	"net"
	"strings"
	"testing"

	"stint/internal/proxytest"
)

func startEnvoy(t testing.TB, file string) proxytest.Command {
	return proxytest.Command{
		Path: proxytest.Binary(t, "envoy"),
		Args: []string{"-c", file, "--disable-hot-restart", "--concurrency", "1", "--log-level", "error"},
	}
}

// envoyWords are words as Envoy's files have them: ports apart, and times in seconds.
func envoyWords(words map[string]string) map[string]string {
	all := map[string]string{}
	for from, to := range words {
		_, old, isAddress := strings.Cut(from, "127.0.0.1:")
		_, port, err := net.SplitHostPort(to)
		switch {
		case from == "100ms":
			all["timeout: 0.1s"] = "timeout: " + to
		case isAddress && err == nil:
			all["port_value: "+old] = "port_value: " + port
		default:
			all[from] = to
		}
	}
	return all
}
