package trail

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"stint/internal/text"
)

// Action is what was done to an object.
type Action string

// The actions.
const (
	Put    Action = "put"    // write a record
	Delete Action = "delete" // delete a record
	Import Action = "import" // write or delete a record, as one of an import
	Reset  Action = "reset"  // reset what was used of a limit
	Erase  Action = "erase"  // delete all records and texts of a subject

	AcceptLoss Action = "accept-loss" // let durable rules go on after counts were lost
)

// Hash is a SHA-256 or an HMAC-SHA256. Its text has 64 hexadecimal digits.
type Hash [sha256.Size]byte

// String returns the hash as 64 hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText returns the hash as 64 hexadecimal digits.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads 64 hexadecimal digits.
func (h *Hash) UnmarshalText(text []byte) error { return unhex(h[:], text) }

// Key is the random key of a commitment. Its text has 32 hexadecimal digits.
type Key [16]byte

// MarshalText returns the key as 32 hexadecimal digits.
func (k Key) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, k[:]), nil }

// UnmarshalText reads 32 hexadecimal digits.
func (k *Key) UnmarshalText(text []byte) error { return unhex(k[:], text) }

var errHex = errors.New("not as many hexadecimal digits as a hash or a key of the audit trail has")

func unhex(to, text []byte) error {
	if len(text) != hex.EncodedLen(len(to)) {
		return errHex
	}
	if _, err := hex.Decode(to, text); err != nil {
		return errHex
	}
	return nil
}

// Entry is one entry of the trail. Its JSON has all that a reader needs to verify it.
type Entry struct {
	Number   uint64    `json:"number"`         // 1 for the first entry; the next one has the next number
	Revision uint64    `json:"revision"`       // of the records, after the change
	Time     time.Time `json:"time"`           // in whole microseconds, UTC
	Action   Action    `json:"action"`         // what was done
	Kind     string    `json:"kind"`           // of the object, such as ban
	Until    time.Time `json:"until,omitzero"` // when what was set ends; zero: never, or nothing was set
	Actor    string    `json:"actor"`          // name of a token or certificate; "" if the caller has none

	// Texts are what was done to whom. They are empty if Erased.
	Texts

	From   string `json:"from"`   // address of the caller; "" for a command on the machine of the file
	Erased bool   `json:"erased"` // the texts and their key were erased

	TextsKey   Key  `json:"texts_key,omitzero"` // zero if Erased
	OriginKey  Key  `json:"origin_key"`
	TextsHash  Hash `json:"texts_hash"`  // commitment to the texts
	OriginHash Hash `json:"origin_hash"` // commitment to From
	Previous   Hash `json:"previous"`    // hash of the previous entry; zero for the first one
	Hash       Hash `json:"hash"`        // hash of this entry
}

// MaxEvent is the most bytes of an object and its subjects, and of the JSON before and after, of an entry
// about something else than a record.
const MaxEvent = 64 << 10

const maxWord = 256 // the most bytes of an action, and of a kind

// Check returns the first fault of an entry about something else than a record.
func (e *Entry) Check() (field, problem, hint string) {
	size := len(e.Object)
	for _, subject := range e.Subjects {
		size += len(subject)
	}
	switch {
	case e.Kind == "" || len(e.Kind) > maxWord || e.Action == "" || len(e.Action) > maxWord || !text.Printable(e.Kind+string(e.Action)):
		return "action", "there is no action, or no kind of object", "use one word for each"
	case size > MaxEvent, len(e.Before)+len(e.After) > MaxEvent:
		return "object", fmt.Sprintf("more than %d bytes", MaxEvent), "name fewer objects in one event"
	case e.Before != nil && !json.Valid(e.Before), e.After != nil && !json.Valid(e.After):
		return "before, after", "not JSON", "write null if it is unknown"
	}
	return "", "", ""
}

// Texts are the parts of an entry that can be erased.
type Texts struct {
	Object   string          `json:"object,omitempty"`   // its name, such as user=42
	Before   json.RawMessage `json:"before,omitempty"`   // the record before; nil if there was none
	After    json.RawMessage `json:"after,omitempty"`    // the record after; nil if there is none
	Why      string          `json:"why,omitempty"`      // the reason that the caller gave
	Subjects []string        `json:"subjects,omitempty"` // whom the entry is about; the texts are erased with any of them
}
