package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"stint"
	"stint/internal/text"
)

// mostBody bounds the bytes of an answer that are read.
const mostBody = 1 << 20

// httpTarget calls an HTTP server. Its callers share the connections, at least one for each worker.
type httpTarget struct {
	client    *http.Client
	transport *http.Transport
	build     func(ctx context.Context, key int, cost uint32) (*http.Request, error)
	read      func(resp *http.Response) (Answer, error)
}

func newHTTPTarget(o Options) *httpTarget {
	transport := &http.Transport{
		TLSClientConfig: o.TLS, MaxIdleConnsPerHost: MaxWorkers, IdleConnTimeout: time.Minute,
		DisableCompression: true, ForceAttemptHTTP2: false,
	}
	return &httpTarget{transport: transport, client: &http.Client{
		Transport: transport,
		// A redirect might lead to somebody else's machine.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Caller returns the target itself, which all workers can use.
func (t *httpTarget) Caller() Caller { return httpCaller{t} }

// Close closes the connections.
func (t *httpTarget) Close() error {
	t.transport.CloseIdleConnections()
	return nil
}

type httpCaller struct{ *httpTarget }

// Close does nothing: the connections are shared.
func (httpCaller) Close() error { return nil }

// Ask sends a request.
func (c httpCaller) Ask(ctx context.Context, key int, cost uint32) (Answer, error) {
	req, err := c.build(ctx, key, cost)
	if err != nil {
		return Answer{}, err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	return c.read(resp)
}

// NewCheck returns a target that sends POST /v1/check to a service at an address such as http://127.0.0.1:8080, by the rules of a
// domain.
func NewCheck(url string, d Descriptor, o Options) (Target, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	type entry struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
	var entries []entry
	for _, e := range d.Entries {
		entries = append(entries, entry(e))
	}
	list, err := json.Marshal(entries)
	if err != nil {
		return nil, err
	}
	domain, err := json.Marshal(d.Domain)
	if err != nil {
		return nil, err
	}
	return newCheck(url, fmt.Sprintf(`{"domain":%s,"descriptors":[{"entries":%s,"cost":`, domain, list), "}]}", o), nil
}

// NewLimitCheck is like NewCheck, but each request contains the limit. It needs no rules.
func NewLimitCheck(url string, limit *stint.Limit, o Options) Target {
	s := limit.Spec()
	numbers := fmt.Sprintf(`"algorithm":"%v","requests":%d,"per":"%v"`, s.Algorithm, s.Requests, s.Per)
	switch {
	case s.Algorithm == stint.TokenBucket || s.Algorithm == stint.LeakyBucket:
		numbers += fmt.Sprintf(`,"burst":%d`, s.Burst)
	case s.Algorithm == stint.SlidingWindow:
		numbers += fmt.Sprintf(`,"blocks":%d`, s.Blocks)
	}
	if s.Step {
		numbers += `,"refill":"step"`
	}
	if s.FromFirst {
		numbers += `,"align":"first"`
	}
	return newCheck(url, `{"key":"`+Placeholder+`","limit":{`+numbers+`},"cost":`, "}", o)
}

// newCheck returns a target whose bodies are head, the cost and tail.
func newCheck(url, head, tail string, o Options) Target {
	t := newHTTPTarget(o)
	body, address := newPhrase(head, jsonText(o.Prefix)), strings.TrimSuffix(url, "/")+"/v1/check"
	t.build = func(ctx context.Context, key int, cost uint32) (*http.Request, error) {
		data := fmt.Appendf(nil, "%s%d%s", body.text(key), cost, tail)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		o.authorize(req)
		return req, nil
	}
	t.read = func(resp *http.Response) (Answer, error) {
		data, err := io.ReadAll(io.LimitReader(resp.Body, mostBody))
		if err != nil {
			return Answer{}, err
		}
		if resp.StatusCode != http.StatusOK {
			return Answer{}, fmt.Errorf("%s: %s", resp.Status, text.Shorten(strings.TrimSpace(string(data))))
		}
		answer := struct{ Allowed, Degraded *bool }{}
		if err := json.Unmarshal(data, &answer); err != nil {
			return Answer{}, fmt.Errorf("the answer is no JSON: %w", err)
		}
		if answer.Allowed == nil {
			return Answer{}, errors.New("the answer has no field allowed: this is no /v1/check")
		}
		return Answer{*answer.Allowed, answer.Degraded != nil && *answer.Degraded}, nil
	}
	return t
}

// jsonText returns s as it stands inside the quotes of a JSON text.
func jsonText(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return "" // cannot happen: any string can be encoded
	}
	return string(b[1 : len(b)-1])
}

func (o Options) authorize(req *http.Request) {
	if o.Token != "" {
		req.Header.Set("Authorization", "Bearer "+o.Token)
	}
}

// Plain describes the requests to any HTTP server.
type Plain struct {
	Method string // GET if empty
	URL    string // may have the placeholder
	Header map[string]string
	Body   string

	// Denied is the status of a denied request; 0 means 429. Other statuses from 400 on are errors.
	Denied int
}

// Named reports whether the name of the key is in the request.
func (p Plain) Named() bool {
	for _, value := range p.Header {
		if strings.Contains(value, Placeholder) {
			return true
		}
	}
	return strings.Contains(p.URL+p.Body, Placeholder)
}

// NewPlain returns a target that sends the requests of p. It follows no redirects. The cost of a call is not sent.
func NewPlain(p Plain, o Options) Target {
	t := newHTTPTarget(o)
	address, content := newPhrase(p.URL, o.Prefix), newPhrase(p.Body, o.Prefix)
	header := map[string]phrase{}
	for name, value := range p.Header {
		header[name] = newPhrase(value, o.Prefix)
	}
	denied := p.Denied
	if denied == 0 {
		denied = http.StatusTooManyRequests
	}
	t.build = func(ctx context.Context, key int, _ uint32) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, p.Method, address.text(key), strings.NewReader(content.text(key)))
		if err != nil {
			return nil, err
		}
		for name, value := range header {
			if http.CanonicalHeaderKey(name) == "Host" {
				req.Host = value.text(key)
			}
			req.Header.Set(name, value.text(key))
		}
		o.authorize(req)
		return req, nil
	}
	t.read = func(resp *http.Response) (Answer, error) {
		// What is longer is left unread, which costs the connection.
		if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, mostBody)); err != nil {
			return Answer{}, err
		}
		switch {
		case resp.StatusCode == denied:
			return Answer{}, nil
		case resp.StatusCode >= http.StatusBadRequest:
			return Answer{}, errors.New(resp.Status)
		}
		return Answer{Allowed: true}, nil
	}
	return t
}
