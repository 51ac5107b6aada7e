// Package gate decides whether a record of the queue may be sent now: by bans, lists, limits, and the
// validity of its client's key.
package gate

import (
	"context"
	"crypto/x509"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"stint"
	"stint/gateway/queue"
	"stint/internal/web"
	"stint/limiter"
	"stint/limiter/response"
	"stint/rule"
)

// Gate is a [queue.Gate] that asks a limiter.
type Gate struct {
	// Limiter returns the limiter of a domain; nil if the domain is not limited any more, then records wait.
	Limiter func(domain string) *limiter.Limiter

	// Valid reports whether the key is still valid with which the client proved its identity. It is asked
	// only about records with a Credential. Nil: all are valid.
	Valid func(ctx context.Context, r *queue.Record) (bool, error)

	// OnError gets faults of settling. Nil: not called.
	OnError func(err error)
}

var _ queue.Gate = (*Gate)(nil)

// noLimiter is how long a record waits whose domain is unknown, such as between two reloads.
const noLimiter = 10 * time.Second

// Ask implements queue.Gate.
func (g *Gate) Ask(ctx context.Context, r *queue.Record) (a queue.Admission, err error) {
	if r.Credential != "" && g.Valid != nil {
		valid, err := g.Valid(ctx, r)
		if err != nil {
			return a, err
		}
		if !valid {
			return queue.Admission{Refused: "the key is not valid any more"}, nil
		}
	}
	l := g.Limiter(r.Domain)
	if l == nil {
		return queue.Admission{Wait: noLimiter}, nil
	}
	request := limiter.Request{Domain: r.Domain, Descriptors: descriptors(r), Attributes: newAttributes(r), Answers: true}
	v := new(limiter.Verdict)
	if err := l.Decide(ctx, &request, v); err != nil {
		return a, err
	}
	if !v.Allowed {
		return refusal(v), nil
	}
	a.Delay = v.Delay
	if v.Reserved() {
		a.Settle = func(status int) { g.settle(ctx, l, v, status) }
	}
	return a, nil
}

// refusal returns the answer for a denied record.
func refusal(v *limiter.Verdict) queue.Admission {
	switch reason := v.Reason(); {
	case reason == limiter.ReasonBanned, reason == limiter.ReasonDenied, reason == limiter.ReasonNoPlan, reason == limiter.ReasonUnmatched:
		return queue.Admission{Refused: string(reason)}
	case v.RetryAfter == stint.Never:
		return queue.Admission{Refused: "the limit never allows it"}
	case reason == limiter.ReasonUnavailable:
		return queue.Admission{Wait: response.RetryUnavailable}
	}
	return queue.Admission{Wait: max(v.RetryAfter, time.Millisecond)}
}

// settle charges or gives back what was reserved. No answer counts as 502.
func (g *Gate) settle(ctx context.Context, l *limiter.Limiter, v *limiter.Verdict, status int) {
	if status == 0 {
		status = http.StatusBadGateway
	}
	if err := response.Settle(ctx, l, v, status); err != nil && g.OnError != nil {
		g.OnError(err)
	}
}

func descriptors(r *queue.Record) []limiter.Descriptor {
	list := make([]limiter.Descriptor, 0, len(r.Descriptors))
	for _, d := range r.Descriptors {
		one := limiter.Descriptor{Cost: d.Cost, CatalogOnly: d.Catalog}
		for _, e := range d.Entries {
			one.Entries = append(one.Entries, rule.Entry{Key: e.Key, Value: e.Value})
		}
		list = append(list, one)
	}
	return list
}

// attributes is a record as lists and bans read a request.
type attributes struct {
	record      *queue.Record
	path, query string
}

var (
	_ rule.Attributes = attributes{}
	_ rule.Connection = attributes{}
)

func newAttributes(r *queue.Record) attributes {
	path, query, _ := strings.Cut(r.URI, "?")
	if u, err := queue.ParseURI(r.URI); err == nil {
		path, query = u.EscapedPath(), u.RawQuery
	}
	return attributes{r, path, query}
}

// Method implements rule.Attributes.
func (a attributes) Method() string { return a.record.Method }

// Path implements rule.Attributes.
func (a attributes) Path() string { return a.path }

// Query implements rule.Attributes.
func (a attributes) Query(name string) (string, bool) { return web.QueryValue(a.query, name) }

// Header implements rule.Attributes.
func (a attributes) Header(name string) (string, bool) {
	values := a.Values(name)
	if len(values) == 0 {
		return "", false
	}
	return values[0], true
}

// RemoteAddress implements rule.Attributes.
func (a attributes) RemoteAddress() netip.Addr { return a.record.Client }

// Host implements rule.Connection.
func (a attributes) Host() string { return a.record.Host }

// Values implements rule.Connection.
func (a attributes) Values(name string) []string {
	if strings.EqualFold(name, "Host") {
		return []string{a.record.Host}
	}
	return a.record.Header.Values(name)
}

// PeerCertificate implements rule.Connection. Certificates are not stored.
func (a attributes) PeerCertificate() *x509.Certificate { return nil }

// TrustedPeer implements rule.Connection.
func (a attributes) TrustedPeer() bool { return false }
