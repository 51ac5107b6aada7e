// Command identity limits a server by the identity of the client: a signed token, else an API key,
// else a device with a signed cookie, else the address. It does not verify API keys, so each
// address has a limit too. That limit applies to clients that make up a new key for each request,
// or collect devices.
package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"stint/httplimit"
	"stint/limiter"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// rules refer to two files in their folder: the public key of the token issuer, and the secret that
// signs the cookies of devices.
const rules = `
domain: who
descriptors:
  - {key: subject, rate_limit: {requests: 100, per: 1h, algorithm: sliding_log, name: each user}}
  - {key: api_key, rate_limit: {requests: 50, per: 1h, algorithm: sliding_log, name: each program}}
  - {key: device, rate_limit: {requests: 20, per: 1h, algorithm: sliding_log, name: each device}}
  - {key: remote_address, rate_limit: {requests: 5, per: 1h, algorithm: sliding_log, name: strangers of an address}}
  - {key: all_of_address, rate_limit: {requests: 200, per: 1h, algorithm: sliding_log, name: all of an address}}
http:
  rate_limits:
    - actions:
        - first_of:
            - bearer_claim: {keys: issuer.pem, issuer: https://login.example.com, audience: api, descriptor_key: subject}
            - api_key: {header_name: x-api-key}
            - device: {cookie: {secret_file: device.secret}}
            - remote_address: {}
    - actions: [{remote_address: {descriptor_key: all_of_address}}]
`

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "identity:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	folder, err := os.MkdirTemp("", "stint")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	issuer, err := write(folder)
	if err != nil {
		return err
	}
	handler, err := limited(folder)
	if err != nil {
		return err
	}
	server := httptest.NewTLSServer(handler)
	defer server.Close()
	return visit(ctx, out, server, issuer)
}

// limited returns the handler with the rules of a folder.
func limited(folder string) (http.Handler, error) {
	table, err := rulefile.Load(filepath.Join(folder, "rules.yaml"))
	if err != nil {
		return nil, err
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	l := limiter.New(memory.New(memory.Options{}), table, limiter.Options{})
	return httplimit.New(l, "who", httplimit.Options{})(hello), nil
}

// write writes the rules and the files that they refer to, and returns the key that signs tokens. A
// real service gets its keys from elsewhere; often bearer_claim has the address of a key set
// instead of a file.
func write(folder string) (issuer ed25519.PrivateKey, err error) {
	public, issuer, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	for name, content := range map[string]string{
		"rules.yaml":    rules,
		"issuer.pem":    string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		"device.secret": base64.StdEncoding.EncodeToString(secret),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	return issuer, nil
}

// token returns a token for a user that is valid for an hour.
func token(issuer ed25519.PrivateKey, user string) string {
	claims := map[string]any{
		"sub": user, "iss": "https://login.example.com", "aud": "api",
		"exp": time.Now().Add(time.Hour).Unix(),
	}
	body, _ := json.Marshal(claims) // encoding strings and a number never fails
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"EdDSA"}`)) + "." + encode(body)
	return signed + "." + encode(ed25519.Sign(issuer, []byte(signed)))
}

// visit sends requests with different identities.
func visit(ctx context.Context, out io.Writer, server *httptest.Server, issuer ed25519.PrivateKey) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	browser := *server.Client()
	browser.Jar = jar // the browser keeps the cookie of the middleware
	_, forger, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	for _, v := range []struct {
		who         string
		client      *http.Client
		header, say string
	}{
		{"a stranger", server.Client(), "", ""},
		{"a browser", &browser, "", ""},
		{"the browser again", &browser, "", ""},
		{"a program", server.Client(), "X-Api-Key", "k1"},
		{"ann", server.Client(), "Authorization", "Bearer " + token(issuer, "ann")},
		{"ann's browser", &browser, "Authorization", "Bearer " + token(issuer, "ann")},
		{"who says to be ann", server.Client(), "Authorization", "Bearer " + token(forger, "ann")},
		{"who makes up a device", server.Client(), "Cookie", "stint_device=1"},
	} {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			return err
		}
		if v.header != "" {
			r.Header.Set(v.header, v.say)
		}
		answer, err := v.client.Do(r)
		if err != nil {
			return err
		}
		answer.Body.Close()
		limit, _, _ := strings.Cut(answer.Header.Get("RateLimit"), ";")
		fmt.Fprintf(out, "%s: %s, %s left\n", v.who, limit, answer.Header.Get("X-RateLimit-Remaining"))
	}
	return nil
}
