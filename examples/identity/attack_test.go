package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stint/rule/audit"
	"stint/rule/rulefile"
)

// No client exceeds the limit of its address with made up values: a new key or cookie for each
// request, its own token, or a collection of devices.
func TestMadeUpIdentities(t *testing.T) {
	for name, attack := range map[string]func(r *http.Request, i int, cookies []*http.Cookie){
		"a key for each request":    func(r *http.Request, i int, _ []*http.Cookie) { r.Header.Set("X-Api-Key", fmt.Sprint("key", i)) },
		"a device for each request": func(r *http.Request, i int, _ []*http.Cookie) { r.Header.Set("Cookie", fmt.Sprint("stint_device=", i)) },
		"a token for each request": func(r *http.Request, i int, _ []*http.Cookie) {
			r.Header.Set("Authorization", fmt.Sprint("Bearer a.b.", i))
		},
		"all that was collected": func(r *http.Request, i int, cookies []*http.Cookie) {
			if len(cookies) > 0 && i%2 == 0 {
				r.AddCookie(cookies[i%len(cookies)])
			}
		},
		"keys and devices in turn": func(r *http.Request, i int, cookies []*http.Cookie) {
			switch {
			case i%2 == 0:
				r.Header.Set("X-Api-Key", fmt.Sprint("key", i))
			case len(cookies) > 0:
				r.AddCookie(cookies[i%len(cookies)])
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if _, err := write(folder); err != nil {
				t.Fatal(err)
			}
			handler, err := limited(folder)
			if err != nil {
				t.Fatal(err)
			}
			var cookies []*http.Cookie
			passed := 0
			for i := range 1000 {
				r := httptest.NewRequest(http.MethodGet, "https://example.com/", nil)
				attack(r, i, cookies)
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if cookies = append(cookies, w.Result().Cookies()...); w.Code == http.StatusOK {
					passed++
				}
			}
			if passed > 200 {
				t.Errorf("%d of 1,000 requests of one address passed, its limit is 200 an hour", passed)
			}
			r := httptest.NewRequest(http.MethodGet, "https://example.com/", nil)
			r.RemoteAddr = "198.51.100.7:1234"
			w := httptest.NewRecorder()
			if handler.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Errorf("status %d for another address", w.Code)
			}
		})
	}
}

// The check of rules finds values that a client could make up, and none in these rules.
func TestCheckOfRules(t *testing.T) {
	folder := t.TempDir()
	if _, err := write(folder); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "rules.yaml")
	alone := strings.Replace(rules, "    - actions: [{remote_address: {descriptor_key: all_of_address}}]\n", "", 1)
	for _, test := range []struct {
		rules string
		found bool
	}{{rules, false}, {alone, true}} {
		if err := os.WriteFile(file, []byte(test.rules), 0o600); err != nil {
			t.Fatal(err)
		}
		table, err := rulefile.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		findings := audit.Table(table)
		if found := slices.ContainsFunc(findings, func(f audit.Finding) bool { return f.ID == "claimed-key" }); found != test.found {
			t.Errorf("found %t, want %t: %+v", found, test.found, findings)
		}
	}
}
