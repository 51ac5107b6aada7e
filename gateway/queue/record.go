package queue

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"stint/limiter/line"
)

// version is the version of the format of records and answers that this program writes.
const version = 1

// Pair is an entry of a descriptor.
type Pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	Bytes string `json:"bytes,omitempty"` // the stored Value in base64, if it is not UTF-8
}

// Descriptor is what a take needs to know of the request.
type Descriptor struct {
	Entries []Pair `json:"entries"`
	Cost    uint32 `json:"cost"`
	Catalog bool   `json:"catalog,omitempty"` // for rules per API only
}

// Record is a request that was accepted. It is stored as a line of JSON, a line feed, and the body.
type Record struct {
	Version int    `json:"version"`
	ID      string `json:"id"`

	Method string      `json:"method"`
	URI    string      `json:"uri"` // path and query as sent, see ParseURI
	Scheme string      `json:"scheme"`
	Host   string      `json:"host"`
	Header http.Header `json:"header"`

	// HeaderBytes has the stored fields with a value that is not UTF-8, and the idempotency key if it is not.
	HeaderBytes map[string][][]byte `json:"header_bytes,omitempty"`

	// TextBytes has the stored texts that are not UTF-8, by their names in JSON.
	TextBytes map[string][]byte `json:"text_bytes,omitempty"`

	// Route is the name of the handler that queued the request, Server has the addresses of its server, and
	// Original path and query as the client sent them, before handlers changed them. By these and the host
	// the gateway finds the handlers to send the request to.
	Route    string `json:"route,omitempty"`
	Server   string `json:"server,omitempty"`
	Original string `json:"original,omitempty"`

	// IdempotencyKey is sent with every try: the client's, else the ID.
	IdempotencyKey string `json:"idempotency_key"`

	Domain      string       `json:"domain"` // of the rules
	Rule        string       `json:"rule"`   // that denied the request
	Descriptors []Descriptor `json:"descriptors"`

	Client   netip.Addr `json:"client"`
	Identity string     `json:"identity,omitempty"` // who the client proved to be

	// Credential identifies the key with which the client proved it, without being a secret, so that the
	// worker can ask whether the key is still valid.
	Credential string `json:"credential,omitempty"`

	Received time.Time     `json:"received"`
	Tries    int           `json:"tries"` // how often to try at most
	Keep     time.Duration `json:"keep"`  // how long to keep the answer

	Body []byte `json:"-"`
}

// Answer is what the client gets at the status resource when the record is finished. It is stored like a
// record.
type Answer struct {
	Version   int         `json:"version"`
	Status    int         `json:"status"`
	Header    http.Header `json:"header"`
	Truncated bool        `json:"truncated,omitempty"` // the body was longer than what is kept

	HeaderBytes map[string][][]byte `json:"header_bytes,omitempty"` // as in Record

	Body []byte `json:"-"`
}

// errFormat is the error about stored bytes that are no record.
var errFormat = errors.New("not a record of the queue")

func encode(head any, body []byte) ([]byte, error) {
	line, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	return append(append(line, '\n'), body...), nil
}

func decode(data []byte, head any, v *int) (body []byte, err error) {
	line, body, found := bytes.Cut(data, []byte{'\n'})
	if !found {
		return nil, errFormat
	}
	if err := json.Unmarshal(line, head); err != nil {
		return nil, fmt.Errorf("%w: %w", errFormat, err)
	}
	if *v != version {
		return nil, fmt.Errorf("%w of version %d: its version is %d", errFormat, version, *v)
	}
	return body, nil
}

// texts returns the texts of the record that need not be UTF-8, by their names in JSON, which would change
// them.
func (r *Record) texts() map[string]*string {
	return map[string]*string{
		"uri": &r.URI, "original": &r.Original, "host": &r.Host, "route": &r.Route, "server": &r.Server,
		"domain": &r.Domain, "rule": &r.Rule, "identity": &r.Identity, "credential": &r.Credential,
	}
}

// ParseURI parses a path and a query as a record has them. Unlike net/url it takes any bytes in the query.
func ParseURI(text string) (*url.URL, error) {
	path, query, found := strings.Cut(text, "?")
	u, err := url.ParseRequestURI(path)
	if err != nil {
		return nil, err
	}
	u.RawQuery, u.ForceQuery = query, found && query == ""
	return u, nil
}

// Encode returns the stored form of the record.
func (r *Record) Encode() ([]byte, error) {
	r.Version = version
	r.HeaderBytes, r.TextBytes = bytesOf(r.Header), nil
	for name, text := range r.texts() {
		if notUTF8(*text) {
			if r.TextBytes == nil {
				r.TextBytes = map[string][]byte{}
			}
			r.TextBytes[name] = []byte(*text)
		}
	}
	for name, values := range bytesOf(http.Header{idempotencyHeader: {r.IdempotencyKey}}) {
		if r.HeaderBytes == nil {
			r.HeaderBytes = map[string][][]byte{}
		}
		r.HeaderBytes[name] = values
	}
	for _, d := range r.Descriptors {
		for i := range d.Entries {
			if e := &d.Entries[i]; notUTF8(e.Value) {
				e.Bytes = base64.StdEncoding.EncodeToString([]byte(e.Value))
			}
		}
	}
	return encode(r, r.Body)
}

// DecodeRecord parses a stored record. Its body refers to data.
func DecodeRecord(data []byte) (*Record, error) {
	r := new(Record)
	body, err := decode(data, r, &r.Version)
	if err != nil {
		return nil, err
	}
	r.Body = body
	if r.Header == nil {
		r.Header = http.Header{}
	}
	restore(r.Header, r.HeaderBytes)
	texts := r.texts()
	for name, text := range r.TextBytes {
		if texts[name] != nil {
			*texts[name] = string(text)
		}
	}
	if r.HeaderBytes[idempotencyHeader] != nil {
		r.IdempotencyKey = r.Header.Get(idempotencyHeader)
		r.Header.Del(idempotencyHeader)
	}
	for _, d := range r.Descriptors {
		for i := range d.Entries {
			if e := &d.Entries[i]; e.Bytes != "" {
				value, err := base64.StdEncoding.DecodeString(e.Bytes)
				if err != nil {
					return nil, fmt.Errorf("%w: %w", errFormat, err)
				}
				e.Value = string(value)
			}
		}
	}
	return r, nil
}

// Encode returns the stored form of the answer.
func (a *Answer) Encode() ([]byte, error) {
	a.Version, a.HeaderBytes = version, bytesOf(a.Header)
	return encode(a, a.Body)
}

// DecodeAnswer parses a stored answer. Its body refers to data.
func DecodeAnswer(data []byte) (*Answer, error) {
	a := new(Answer)
	var err error
	a.Body, err = decode(data, a, &a.Version)
	if a.Header == nil {
		a.Header = http.Header{}
	}
	restore(a.Header, a.HeaderBytes)
	return a, err
}

// NewID returns an ID of 128 random bits.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// ValidID reports whether a text has the form of an ID.
func ValidID(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == 16 && hex.EncodeToString(b) == text
}

// LineOf returns the line of a key of a rule. It is a hash, because the key may be an address or a name.
func LineOf(rule, key string) string { return hash(rule, key) }

// ruleOf returns the name by which the records of a rule are counted.
func ruleOf(id line.ID) string { return id.Domain + ": " + id.Rule }

// whoOf returns the hash by which a client is recognized as the sender of a record.
func whoOf(id, client string) string { return hash(id, client) }

// hash returns 128 bits of the hash of two texts.
func hash(a, b string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s%s", len(a), a, b)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// lineOf returns the line of a key of a rule in the storage.
func lineOf(id line.ID) string { return LineOf(ruleOf(id), hex.EncodeToString(id.Key[:])) }
