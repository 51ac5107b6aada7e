package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
)

const (
	// Timeout is how long a request may take, from the look-up of the name to the end of the answer.
	Timeout = 15 * time.Second

	// MaxBody is the most bytes of a body: one byte less than Standard Webhooks' 20 KB.
	MaxBody = 20_000 - 1

	// mostRetryAfter is the longest time that a receiver can ask for.
	mostRetryAfter = 24 * time.Hour

	// mostRead is the most bytes read of an answer. Nothing in it is used.
	mostRead = 64 << 10
)

// ClientOptions are the settings of a Client.
type ClientOptions struct {
	// URL is where the messages go; see [CheckURL].
	URL string

	// Allow are addresses to which a request may go although they are not public. None by default.
	Allow []netip.Prefix

	// Resolver looks up the name of the URL; nil for that of the machine.
	Resolver *net.Resolver
}

// Client sends messages to one receiver. It is safe for concurrent use. It makes a connection for each request,
// so that each request has its address checked.
type Client struct {
	url  string
	http *http.Client
}

// NewClient returns a client. The URL must have been checked by [CheckURL].
func NewClient(o ClientOptions) *Client {
	dialer := &net.Dialer{
		Timeout: Timeout, Resolver: o.Resolver, KeepAlive: -1,
		Control: func(_, address string, _ syscall.RawConn) error {
			target, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return checkAddress(target.Addr(), o.Allow)
		},
	}
	return &Client{o.URL, &http.Client{
		Timeout:       Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: nil, DialContext: dialer.DialContext, DisableKeepAlives: true, TLSHandshakeTimeout: Timeout,
			MaxResponseHeaderBytes: mostRead, DisableCompression: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		},
	}}
}

// CheckURL returns what is wrong with the URL of a receiver, and what to do; "" if nothing is. It accepts an address
// that is not public, which the operator may allow.
func CheckURL(text string) (problem, hint string) {
	const example = "write one such as https://hooks.example.com/stint"
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		return "it is not a URL", example
	case u.Scheme != "https" && u.Scheme != "http":
		return "its scheme is neither https nor http", example
	case u.User != nil:
		return "it has a user or a password, which logs would show", "leave them out: the receiver knows the sender by the signature"
	case u.Fragment != "":
		return "it has a part behind #, which is never sent", "leave it out"
	}
	return "", ""
}

// placeOfURL returns the scheme and the host of a URL for people: its path and its query may have secrets.
func placeOfURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "?"
	}
	return u.Scheme + "://" + u.Host
}

// Message is what is sent.
type Message struct {
	ID   string // the same for all tries of a message
	Body []byte // JSON, of at most MaxBody bytes
}

// Answer is what became of a try.
type Answer struct {
	Status  int    // status of HTTP; 0 without an answer
	Problem string // why the try failed, without a secret; "" if it succeeded

	// Gone says that the receiver wants no message ever again (410).
	Gone bool

	// Useless says that another try would fail in the same way.
	Useless bool

	// Pause is how long to send this receiver nothing; 0: the receiver does not ask for it.
	Pause time.Duration
}

// defaultPause is the pause after an answer that asks to slow down without saying for how long.
const defaultPause = 30 * time.Second

// Send posts a message once, signed by each secret at the time of the call.
func (c *Client) Send(ctx context.Context, m Message, secrets []Secret) Answer {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(m.Body))
	if err != nil {
		return Answer{Problem: "the URL cannot be used"}
	}
	at := time.Now()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "stint-webhooks")
	r.Header.Set("Webhook-Id", m.ID)
	r.Header.Set("Webhook-Timestamp", stamp(at))
	r.Header.Set("Webhook-Signature", signatures(secrets, m.ID, at, m.Body))
	answer, err := c.http.Do(r)
	if err != nil {
		return Answer{Problem: reason(err)}
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, mostRead)) // what it says is not used
	return judge(answer.StatusCode, answer.Header.Get("Retry-After"), at)
}

// judge returns what a status and the header Retry-After mean.
func judge(status int, retryAfter string, now time.Time) Answer {
	a := Answer{Status: status, Gone: status == http.StatusGone}
	if status >= 200 && status <= 299 {
		return a
	}
	a.Problem = strings.TrimSpace(fmt.Sprintf("the receiver answered %d %s", status, http.StatusText(status)))
	if status >= 300 && status <= 399 {
		a.Problem += "; redirects are not followed: write the other URL into the config file"
	}
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusGatewayTimeout:
		a.Pause = defaultPause
	}
	if asked := parseRetryAfter(retryAfter, now); asked > 0 {
		a.Pause = asked
	}
	return a
}

// parseRetryAfter parses the header Retry-After: seconds, or a date. 0 if it is neither or has passed.
func parseRetryAfter(text string, now time.Time) time.Duration {
	var d time.Duration
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		d = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(text); err == nil {
		d = date.Sub(now)
	}
	return min(max(d, 0), mostRetryAfter)
}

// mostReason is the most characters of a reason: it stands in a log line, and beside each delivery of the queue.
const mostReason = 200

// reason returns why a request got no answer. The error of net/http contains the whole URL, which may have a
// secret, so only its cause is used. A cause quotes what the receiver sent, up to mostRead bytes, in which the
// receiver may repeat the URL; so it ends at the first quote.
func reason(err error) string {
	if refused, ok := errors.AsType[*AddressError](err); ok {
		return refused.Error()
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return fmt.Sprintf("no answer within %v", Timeout)
	}
	if wrong, ok := errors.AsType[*url.Error](err); ok {
		err = wrong.Err
	}
	cause, _, _ := strings.Cut(err.Error(), `"`)
	printable := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, strings.TrimRight(cause, " :("))
	return fmt.Sprintf("no answer: %.*s", mostReason, printable)
}
