package trail

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"
)

// Head is a place in the chain: the number and the hash of an entry. The zero Head is the place before
// the first entry.
type Head struct {
	Number uint64 `json:"number"`
	Hash   Hash   `json:"hash"`
}

// String returns the head as NUMBER:HASH.
func (h Head) String() string { return strconv.FormatUint(h.Number, 10) + ":" + h.Hash.String() }

var errHead = errors.New("a head of the audit trail is written NUMBER:HASH, with 64 hexadecimal digits in the hash")

// ParseHead reads a head as String writes it.
func ParseHead(s string) (h Head, err error) {
	number, hash, _ := strings.Cut(s, ":")
	if h.Number, err = strconv.ParseUint(number, 10, 64); err != nil || h.Hash.UnmarshalText([]byte(hash)) != nil {
		return Head{}, errHead
	}
	return h, nil
}

// Report is the result of [Verify].
type Report struct {
	First   uint64    `json:"first"`           // number of the first entry; 0 if there are no entries
	Since   time.Time `json:"since,omitzero"`  // time of the first entry; later than the age at which entries are dropped, if somebody removed more
	Head    Head      `json:"head"`            // the last entry up to which the chain is whole
	Erased  uint64    `json:"erased"`          // entries whose texts were erased
	Skipped []Head    `json:"skipped"`         // heads that could not be compared: their entries were dropped because of their age
	Break   *Break    `json:"break,omitempty"` // the first fault; nil if there is none
}

// Break is a place where the chain is broken.
type Break struct {
	Number  uint64 `json:"number"`  // of the entry with the fault, or of the first one that is missing
	Problem string `json:"problem"` // what is wrong with it
}

// Error returns the number and the problem.
func (b *Break) Error() string { return fmt.Sprintf("entry %d: %s", b.Number, b.Problem) }

// Verify verifies a trail. The first entry must follow start: the place before the oldest entry that is
// kept. The known heads were kept elsewhere; each must be in the chain. Verify reads each entry once and
// keeps none of them. An error of the entries ends it; a *[Break] is then in the report, and any other
// error is returned.
func Verify(start Head, entries iter.Seq2[Entry, error], known ...Head) (Report, error) {
	r := Report{Head: start, Skipped: []Head{}}
	want := map[uint64]Hash{}
	for _, head := range known {
		switch other, twice := want[head.Number]; {
		case head.Number < start.Number:
			r.Skipped = append(r.Skipped, head)
		case twice && other != head.Hash, head.Number == start.Number && head.Hash != start.Hash:
			r.Break = &Break{head.Number, "it has another hash than the head that was kept of it"}
			return r, nil
		default:
			want[head.Number] = head.Hash
		}
	}
	for e, err := range entries {
		if err == nil {
			err = r.add(&e, want)
		}
		if broken, ok := errors.AsType[*Break](err); ok {
			r.Break = broken
			return r, nil
		}
		if err != nil {
			return r, err
		}
	}
	for _, head := range known {
		if head.Number > r.Head.Number {
			r.Break = &Break{r.Head.Number + 1, fmt.Sprintf("missing: the end of the trail was cut off, because a head was kept of entry %d", head.Number)}
			break
		}
	}
	return r, nil
}

// add verifies the next entry. want are hashes of entries by number.
func (r *Report) add(e *Entry, want map[uint64]Hash) error {
	next := r.Head.Number + 1
	switch hash, kept := want[next]; {
	case e.Number < next:
		return &Break{next, fmt.Sprintf("entry %d is in its place", e.Number)}
	case e.Number > next:
		return &Break{next, fmt.Sprintf("missing: entry %d follows entry %d", e.Number, r.Head.Number)}
	case e.Previous != r.Head.Hash:
		return &Break{next, fmt.Sprintf("it does not follow entry %d as that is now: one of both was changed", r.Head.Number)}
	case e.Hash != sha256.Sum256(e.Chain()):
		return &Break{next, "it has another hash than its chain part"}
	case kept && hash != e.Hash:
		return &Break{next, "it has another hash than the head that was kept of it: it, or an entry before it, was changed"}
	case !e.Erased && e.TextsHash != commitment(e.TextsKey, e.Texts.encode()):
		return &Break{next, "its texts are not those that the chain has a hash of"}
	case e.OriginHash != commitment(e.OriginKey, []byte(e.From)):
		return &Break{next, "its address of the caller is not the one that the chain has a hash of"}
	}
	if e.Erased {
		r.Erased++
	}
	if r.First == 0 {
		r.First, r.Since = next, e.Time
	}
	r.Head = Head{next, e.Hash}
	return nil
}
