// Command device distinguishes the browsers behind one address: each gets a signed cookie with its
// first page, and then has its own limit.
package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"

	"stint/httplimit"
	"stint/limiter"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// rules are written to a file, next to that of the secret. A site on https leaves `secure: false`
// out.
const rules = `
domain: site
descriptors:
  - key: device
    rate_limit: {requests: 3, per: 1h, algorithm: sliding_log, name: each device}
  - key: remote_address
    rate_limit: {requests: 4, per: 1h, algorithm: sliding_log, name: strangers of an address}
  - key: all_of_address
    rate_limit: {requests: 100, per: 1h, algorithm: sliding_log, name: all of an address}
http:
  rate_limits:
    - actions: [{first_of: [{device: {cookie: {secret_file: device.secret, secure: false}}}, {remote_address: {}}]}]
    - actions: [{remote_address: {descriptor_key: all_of_address}}]
`

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "device:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	folder, err := os.MkdirTemp("", "stint")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	site, err := newSite(folder)
	if err != nil {
		return err
	}
	server := httptest.NewServer(site)
	defer server.Close()

	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	for _, visitor := range []struct {
		name  string
		jar   http.CookieJar
		pages int
	}{
		{"a browser", jar, 3},             // one page as a stranger, two as a device
		{"one without cookies", nil, 5},   // the units left for strangers, and no more
		{"the browser once more", jar, 2}, // the units left of its own limit
	} {
		if err := visit(ctx, out, visitor.name, &http.Client{Jar: visitor.jar}, server.URL, visitor.pages); err != nil {
			return err
		}
	}
	return nil
}

// newSite returns a site that is limited by the rules. It generates its secret; a real site keeps
// its secret, and gives all nodes the same.
func newSite(folder string) (http.Handler, error) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	line := base64.StdEncoding.EncodeToString(secret) + "\n"
	if err := os.WriteFile(filepath.Join(folder, "device.secret"), []byte(line), 0o600); err != nil {
		return nil, err
	}
	table, err := rulefile.Parse(rulefile.Source{Name: "rules", Data: []byte(rules), Folder: folder})
	if err != nil {
		return nil, err
	}
	l := limiter.New(memory.New(memory.Options{}), table, limiter.Options{})
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	return httplimit.New(l, "site", httplimit.Options{})(page), nil
}

// visit requests pages and prints which it gets.
func visit(ctx context.Context, out io.Writer, name string, client *http.Client, url string, pages int) error {
	fmt.Fprintf(out, "%s:", name)
	for range pages {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		answer.Body.Close()
		fmt.Fprintf(out, " %d", answer.StatusCode)
	}
	fmt.Fprintln(out)
	return nil
}
