package redis_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/store/redis"
)

// certificate writes a certificate for 127.0.0.1, signed by itself, and its key.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis of a test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(err)
	secret, err := x509.MarshalECPrivateKey(key)
	must(err)
	certFile, keyFile = filepath.Join(t.TempDir(), "redis.crt"), filepath.Join(t.TempDir(), "redis.key")
	must(os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600))
	must(os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600))
	return certFile, keyFile
}

// A connection is encrypted if the URL says so, and only to a server with a trusted certificate.
func TestEncrypted(t *testing.T) { testEncrypted(t, "no") }

// A server may require a client certificate.
func TestEncryptedBothWays(t *testing.T) { testEncrypted(t, "yes") }

func testEncrypted(t *testing.T, clients string) {
	if os.Getenv("STINT_SERVER_WITHOUT_TLS") != "" {
		t.Log("scripts/test-servers.sh says that this server has no TLS: not tested here")
		return
	}
	cert, key := certificate(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	listener.Close()
	testkit.StartRedis(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", clients)
	shown, anonymous := "&cert="+cert+"&key="+key, "?ca="+cert
	refused := map[string]string{"no": "", "yes": " "}[clients] // any text
	for _, test := range []struct{ url, problem string }{
		{"rediss://127.0.0.1:" + port + anonymous, refused},
		{"rediss://127.0.0.1:" + port + anonymous + shown, ""},
		{"valkeys://127.0.0.1:" + port + anonymous + shown, ""},
		{"rediss://localhost:" + port + anonymous + shown, "certificate"},
		{"rediss://localhost:" + port + anonymous + shown + "&verify=chain", ""},
		{"rediss://127.0.0.1:" + port + "?verify=chain" + shown, "certificate"},
		{"rediss://127.0.0.1:" + port, "certificate"},
		{"redis://127.0.0.1:" + port, "connection"},
	} {
		s, err := redis.Open(test.url, redis.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		_, err = attempt(t.Context(), s, "a")
		if (err == nil) != (test.problem == "") || err != nil && !strings.Contains(err.Error(), test.problem) {
			t.Errorf("%s: %v, want %q", test.url, err, test.problem)
		}
		hint := map[string]string{"certificate": "ca=", "connection": "rediss://", " ": "cert="}[test.problem]
		if problem, ok := errors.AsType[*redis.Error](err); hint != "" && (!ok || !strings.Contains(problem.Hint, hint)) {
			t.Errorf("%s: %v, want a hint of %s", test.url, err, hint)
		}
		if test.problem == "certificate" && errors.Is(err, stint.ErrUnknown) {
			t.Errorf("%s: %v: nothing was sent", test.url, err)
		}
	}
}

// The store reaches a server by its Unix socket.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "redis.sock")
	testkit.StartRedis(t, "--unixsocket", path)
	s, err := redis.Open("redis+unix://"+path+"?db=3", redis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := attempt(t.Context(), s, "a"); err != nil {
		t.Error(err)
	}
}
