package records

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"stint/internal/text"
	"stint/records/dbfile"
)

// stored is a record of type R in the file.
type stored[R any] struct {
	Revision uint64    `json:"revision"`
	Changed  time.Time `json:"changed"`
	Record   R         `json:"record"`
}

// entry converts a stored record.
func entry[R Record](v stored[R]) Entry { return Entry{v.Record, v.Revision, v.Changed} }

// decode reads a value that dbfile.Encode wrote.
func decode[T any](f *File, name, value []byte) (T, error) {
	v, err := dbfile.Decode[T](name, value)
	if err != nil {
		err = f.unreadable(err)
	}
	return v, err
}

// unreadable returns the Error for a value that is not what was written; another error as it is.
func (f *File) unreadable(err error) error {
	if fault, ok := errors.AsType[*dbfile.ValueError](err); ok {
		return f.damaged("the record " + text.Shorten(fault.Name) + " " + fault.Problem)
	}
	return err
}

// recordText returns the JSON of the record in a stored value; nil if value is nil. It refers to the
// memory of value.
func recordText(value []byte) json.RawMessage {
	_, text, _ := bytes.Cut(value, []byte(`"record":`))
	return bytes.TrimSuffix(text, []byte("}"))
}

// decodeEntry reads a record of a kind.
func (f *File) decodeEntry(kind Kind, name, value []byte) (Entry, error) {
	switch kind {
	case Subjects:
		v, err := decode[stored[Subject]](f, name, value)
		return entry(v), err
	case Overrides:
		v, err := decode[stored[Override]](f, name, value)
		return entry(v), err
	case Bans:
		v, err := decode[stored[Ban]](f, name, value)
		return entry(v), err
	case Rules:
		v, err := decode[stored[Rule]](f, name, value)
		v.Record.Name = string(name)
		return entry(v), err
	case Plans:
		v, err := decode[stored[Plan]](f, name, value)
		return entry(v), err
	default:
		v, err := decode[stored[APIKey]](f, name, value)
		return entry(v), err
	}
}
