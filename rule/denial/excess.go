package denial

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"stint/internal/text"
)

// Mode is how the excess of a limit is handled.
type Mode uint8

// The modes. Of several limits that deny a request the smallest mode applies.
const (
	Drop  Mode = iota // answer at once that the request is denied
	Queue             // store the request and send it later
	Wait              // hold the request until the limit has room
)

var modes = [...]string{"drop", "queue", "wait"}

// String returns the word of a rule file.
func (m Mode) String() string { return modes[m] }

// The defaults of an excess.
const (
	DefaultMaxWait      = 5 * time.Second
	DefaultPlaces       = 1000 // of lines; a queue has DefaultQueued
	DefaultPlacesPerKey = 100
	DefaultFull         = http.StatusTooManyRequests

	DefaultQueued = 10_000
	DefaultBody   = 1 << 20
	DefaultBytes  = 1 << 30
	DefaultKeep   = 24 * time.Hour
	DefaultTries  = 10
)

// Excess is what happens to a request that a limit denies, in place of an answer at once. A nil
// Excess drops the request. It is immutable and safe for concurrent use.
type Excess struct {
	Mode Mode // Wait or Queue

	// Places is how many requests may wait, or be stored, for a rule.
	Places uint32

	// Full is the status where there is no place, or not in time: 429 or 503.
	Full int

	// MaxWait is how long a request may wait, and PlacesPerKey how many requests of one key may wait
	// at a time. Both are for Wait.
	MaxWait      time.Duration
	PlacesPerKey uint32

	// Methods are the methods that may be stored. If Asked is set, the client must ask for it with
	// `Prefer: respond-async`. Both, and what follows, are for Queue.
	Methods []string
	Asked   bool

	// Body is the most bytes of a body that is stored, and Bytes the most of all stored requests.
	Body, Bytes int64

	// Keep is how long an answer is kept, and Tries how often a request is sent at most.
	Keep  time.Duration
	Tries uint32
}

// ModeOf returns the mode of an excess, which may be nil.
func ModeOf(e *Excess) Mode {
	if e == nil {
		return Drop
	}
	return e.Mode
}

// Stores reports whether a request with this method may be stored.
func (e *Excess) Stores(method string) bool {
	return e.Mode == Queue && slices.Contains(e.Methods, method)
}

// String returns the excess in one line: drop for nil.
func (e *Excess) String() string {
	if e == nil {
		return Drop.String()
	}
	if e.Mode == Wait {
		return fmt.Sprintf("wait of at most %s for %d places, %d per key, else %d", text.FormatDuration(e.MaxWait), e.Places, e.PlacesPerKey, e.Full)
	}
	when := "always"
	if e.Asked {
		when = "when asked"
	}
	return fmt.Sprintf("queue of %s %s for %d places, bodies of %s, %s in all, kept %s, %d tries, else %d", strings.Join(e.Methods, " "),
		when, e.Places, text.FormatSize(e.Body), text.FormatSize(e.Bytes), text.FormatDuration(e.Keep), e.Tries, e.Full)
}
