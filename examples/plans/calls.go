package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// calls makes n calls of a customer, prints them, and compares the answer of the last one. It does nothing after
// a failure.
func (s *shop) calls(ctx context.Context, user string, n int, want string) {
	for i := range n {
		if s.failed != nil {
			return
		}
		body := `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"` + user + `"}]}]}`
		answer, err := s.get(ctx, http.MethodPost, "/v1/check", "", body)
		if err != nil {
			s.failed = err
			return
		}
		if i == 0 {
			fmt.Fprintf(s.out, "$ curl http://%s/v1/check -d '%s'%s\n", s.service.Address("http"), body, times(n))
		}
		got, err := outcome(answer)
		if err != nil {
			s.failed = err
			return
		}
		fmt.Fprintln(s.out, got)
		if i == n-1 && got != want {
			s.failed = fmt.Errorf("call %d of %s is %s; it should be %s", i+1, user, got, want)
		}
	}
	fmt.Fprintln(s.out)
}

// times says how often a command is repeated.
func times(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf("   # %d times", n)
}

// outcome returns an answer of /v1/check in words.
func outcome(answer []byte) (string, error) {
	var d struct {
		Allowed          bool
		Reason           string
		Limit, Remaining int
	}
	if err := json.Unmarshal(answer, &d); err != nil {
		return "", fmt.Errorf("%w in the answer %s", err, answer)
	}
	said := "allowed"
	if !d.Allowed {
		said = "denied (" + d.Reason + ")"
	}
	return fmt.Sprintf("%s, %d of %d left", said, d.Remaining, d.Limit), nil
}

// ownUsage makes an API key of the customer, and asks with it for her usage.
func (s *shop) ownUsage(ctx context.Context) {
	created := s.stint(ctx, "keys", "create", "--json", "--subject", "user=ann")
	if s.failed != nil {
		return
	}
	var key struct{ Key string }
	if err := json.Unmarshal([]byte(created), &key); err != nil {
		s.failed = fmt.Errorf("%w in %s", err, created)
		return
	}
	fmt.Fprintf(s.out, "$ curl -H \"Authorization: Bearer %s\" http://%s/v1/me/usage\n", key.Key, s.service.Address("http"))
	answer, err := s.get(ctx, http.MethodGet, "/v1/me/usage", key.Key, "")
	if err != nil {
		s.failed = err
		return
	}
	fmt.Fprintf(s.out, "%s\n", bytes.TrimSpace(answer))
}

// get returns the body of an answer of the service, with a status of 200 or 429.
func (s *shop) get(ctx context.Context, method, path, key, body string) (answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.service.Address("http")+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	answer, err = io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusTooManyRequests {
		return nil, fmt.Errorf("%s is answered %s: %s", path, resp.Status, answer)
	}
	return answer, nil
}
