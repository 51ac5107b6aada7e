package examples

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"stint/internal/testkit"
	"stint/internal/testkit/programs"
)

// A proxy that sees the status of the backend settles by it: a hundred right passwords count nothing, and
// after 30 wrong ones the address is refused. Other paths are not limited, and no client can settle with a
// header of its own.
func TestLoginProxies(t *testing.T) {
	for _, proxy := range askers {
		if proxy.name != "nginx" && proxy.name != "envoy" {
			continue
		}
		proxy.file = strings.Replace(proxy.file, "auth-%s", "%s", 1)
		t.Run(proxy.name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan http.Header, 1000)
			backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/login" {
					asked <- r.Header
				}
				if r.PostFormValue("password") == "guess" {
					w.WriteHeader(http.StatusUnauthorized)
				}
			}))
			t.Cleanup(backend.Close)
			service := programs.Stint(t, "--rules", "rules/login.yaml", "--trusted-proxies", "127.0.0.1")
			address := proxy.run(t, "login", service, strings.TrimPrefix(backend.URL, "http://"))
			client := programs.Client(t, "127.0.0.1")
			send := func(path, password string) int {
				t.Helper()
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+path, strings.NewReader(url.Values{"password": {password}}.Encode()))
				testkit.Must(t, err)
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Header.Set("Origin", "http://"+address) // as browsers do
				r.Header.Set("X-Stint-Reservation", "forged")
				r.Header.Set("X-Login-User", fmt.Sprint("somebody", password)) // would be limited by name
				answer, err := client.Do(r)
				testkit.Must(t, err)
				defer answer.Body.Close()
				_, err = io.Copy(io.Discard, answer.Body)
				testkit.Must(t, err)
				return answer.StatusCode
			}
			for i := range 100 {
				programs.Until(t, "the right passwords are given back", func() bool { return addressHas(t, service) >= 29 })
				if got := send("/login", "right"); got != http.StatusOK {
					t.Fatalf("right password %d: %d, want 200", i+1, got)
				}
			}
			programs.Until(t, "all are given back", func() bool { return addressHas(t, service) == 30 })
			for i := range 31 {
				want := http.StatusUnauthorized
				if i == 30 {
					want = http.StatusTooManyRequests
				}
				if got := send("/login", "guess"); got != want {
					t.Errorf("wrong password %d: %d, want %d", i+1, got, want)
				}
			}
			if got := send("/login", "right"); got != http.StatusTooManyRequests {
				t.Errorf("the right password then: %d, want 429", got)
			}
			if got := send("/other", "right"); got != http.StatusOK {
				t.Errorf("another path: %d, want 200", got)
			}
			close(asked)
			n := 0
			for header := range asked {
				if n++; proxy.name == "envoy" && header.Get("X-Stint-Reservation") != "" {
					t.Fatalf("the backend gets the reservation %s", header.Get("X-Stint-Reservation"))
				}
			}
			if n != 130 {
				t.Errorf("%d tries reach the backend, want 130", n)
			}
		})
	}
}

// addressHas returns how many wrong passwords the address of the client has left.
func addressHas(t *testing.T, service *programs.Service) int {
	t.Helper()
	const body = `{"domain":"login","cost":0,"descriptors":[{"entries":[{"key":"remote_address","value":"127.0.0.1"}]}]}`
	answer, err := http.Post("http://"+service.HTTP+"/v1/check", "application/json", strings.NewReader(body))
	testkit.Must(t, err)
	defer answer.Body.Close()
	var v struct{ Remaining int }
	testkit.Must(t, json.NewDecoder(answer.Body).Decode(&v))
	return v.Remaining
}
