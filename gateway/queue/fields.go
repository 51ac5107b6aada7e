package queue

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"stint/records/apikey"
)

// IdentityHeader is the header field in which the upstream gets the identity of the client.
const IdentityHeader = "Stint-Identity"

// idempotencyHeader is the same in all tries of a record.
const idempotencyHeader = "Idempotency-Key"

// connectionFields belong to one connection, and are sent to nobody else (RFC 9110, 7.6.1).
var connectionFields = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
}

// requestFields of the client are not stored: the length follows from the body, and whoever waits for
// 100 or for the answer is gone.
var requestFields = []string{"Content-Length", "Expect", "Prefer", "Alt-Used", "Early-Data"}

// secretFields are never stored.
var secretFields = []string{
	"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "Api-Key", "Apikey", "X-Auth-Token", "X-Amz-Security-Token", IdentityHeader,
}

// forwardingFields are made anew when the request is sent, from the client's address in the record.
var forwardingFields = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Real-Ip"}

// Secrets are the fields of requests that identify clients by a secret, in addition to Authorization and
// Cookie. They are not stored.
type Secrets struct {
	Headers, Parameters []string
}

// AddActions adds the fields that the actions of an element of http.rate_limits read, which is JSON.
func (s *Secrets) AddActions(element string) {
	var v any
	if json.Unmarshal([]byte(element), &v) == nil {
		s.add(v)
	}
}

func (s *Secrets) add(v any) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			s.add(one)
		}
	case map[string]any:
		for name, value := range v {
			words, _ := value.(map[string]any)
			switch name {
			case "api_key":
				s.Headers = appendText(s.Headers, words["header_name"])
				s.Parameters = appendText(s.Parameters, words["query_parameter_name"])
			case "device":
				s.Headers = appendText(s.Headers, words["header"])
			}
			s.add(value)
		}
	}
}

func appendText(to []string, v any) []string {
	if text, ok := v.(string); ok && text != "" {
		return append(to, text)
	}
	return to
}

// isKey reports whether a value is an API key of the records, wherever it stands.
func isKey(value string) bool {
	_, err := apikey.Parse(value)
	return err == nil
}

// header returns a copy of the fields of a request that are stored.
func (s *Secrets) header(h http.Header) http.Header {
	kept := h.Clone()
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			kept.Del(textproto.TrimString(name))
		}
	}
	for _, names := range [][]string{connectionFields, requestFields, secretFields, forwardingFields} {
		for _, name := range names {
			delete(kept, name)
		}
	}
	for name := range kept {
		secret := slices.ContainsFunc(s.Headers, func(one string) bool { return strings.EqualFold(one, name) })
		if secret || strings.HasPrefix(name, ":") || slices.ContainsFunc(kept[name], isKey) {
			delete(kept, name)
		}
	}
	return kept
}

// uri returns path and query without the parameters that are secret. The rest stays as the client wrote
// it.
func (s *Secrets) uri(u *url.URL) string {
	path := u.EscapedPath()
	if u.RawQuery == "" {
		return path
	}
	var kept []string
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		parts := strings.Split(pair, ";") // as some servers separate pairs
		if parts = slices.DeleteFunc(parts, s.isSecret); len(parts) > 0 {
			kept = append(kept, strings.Join(parts, ";"))
		}
	}
	if len(kept) == 0 {
		return path
	}
	return path + "?" + strings.Join(kept, "&")
}

// isSecret reports whether a pair of a query has a secret.
func (s *Secrets) isSecret(pair string) bool {
	name, value, _ := strings.Cut(pair, "=")
	plain, err := url.QueryUnescape(name)
	return err == nil && slices.Contains(s.Parameters, plain) || isKey(value)
}

// answerHeader returns a copy of the fields of an upstream's answer that the client gets.
func answerHeader(h http.Header) http.Header {
	kept := h.Clone()
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			kept.Del(textproto.TrimString(name))
		}
	}
	for _, name := range connectionFields {
		kept.Del(name)
	}
	for _, name := range []string{"Set-Cookie", "Content-Length", "Date", "Alt-Svc", "Server", "Strict-Transport-Security"} {
		kept.Del(name)
	}
	return kept
}

// ParseAnswerHeader parses the header of an answer, an object of JSON with a list of values for each name,
// and returns the fields that a client gets. "" is none.
func ParseAnswerHeader(text string) (http.Header, error) {
	h := http.Header{}
	if text == "" {
		return h, nil
	}
	var fields map[string][]string
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return nil, fmt.Errorf("header: write an object of JSON with lists, such as {\"Content-Type\": [\"text/plain\"]}: %w", err)
	}
	for name, values := range fields {
		for _, value := range values {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
				return nil, fmt.Errorf("header: the field %q is not valid", name)
			}
			h.Add(name, value)
		}
	}
	return answerHeader(h), nil
}
