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

// entryOf reads a record.
func entryOf[R Record](f *File, name, value []byte) (Entry, error) {
	v, err := decode[stored[R]](f, name, value)
	return Entry{v.Record, v.Revision, v.Changed}, err
}

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
		return entryOf[Subject](f, name, value)
	case Overrides:
		return entryOf[Override](f, name, value)
	case Bans:
		return entryOf[Ban](f, name, value)
	case Rules:
		v, err := decode[stored[Rule]](f, name, value)
		v.Record.Name = string(name)
		return Entry{v.Record, v.Revision, v.Changed}, err
	case Plans:
		return entryOf[Plan](f, name, value)
	case Grants:
		return entryOf[Grant](f, name, value)
	default:
		return entryOf[APIKey](f, name, value)
	}
}
