package trail

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	format     = "stint trail 1"
	timeLayout = "2006-01-02T15:04:05.000000Z"
	endLayout  = "2006-01-02T15:04:05Z"
	lines      = 11 // of a chain part
)

// Seal completes an entry that follows the entry with the hash previous: it draws the keys, and sets
// the commitments and the hashes. The caller sets all other fields.
func Seal(e Entry, previous Hash) Entry {
	// rand.Read never fails.
	_, _ = rand.Read(e.TextsKey[:])
	_, _ = rand.Read(e.OriginKey[:])
	e.Actor, e.Kind = oneLine(e.Actor), oneLine(e.Kind)
	e.Time = e.Time.UTC().Truncate(time.Microsecond)
	if !e.Until.IsZero() {
		e.Until = e.Until.UTC().Truncate(time.Second)
	}
	e.TextsHash = commitment(e.TextsKey, e.Texts.encode())
	e.OriginHash = commitment(e.OriginKey, []byte(e.From))
	e.Previous = previous
	e.Hash = sha256.Sum256(e.Chain())
	return e
}

// EraseTexts returns the entry without its texts and their key. Its chain part stays as it is.
func (e Entry) EraseTexts() Entry {
	e.Texts, e.TextsKey, e.Erased = Texts{}, Key{}, true
	return e
}

// About reports whether the entry is about a subject.
func (e *Entry) About(subject string) bool { return slices.Contains(e.Subjects, subject) }

// Chain returns the chain part of the entry, as the package comment describes it.
func (e *Entry) Chain() []byte {
	b := make([]byte, 0, 400)
	line := func(text string) { b = append(append(b, text...), '\n') }
	line(format)
	line(e.Previous.String())
	line(strconv.FormatUint(e.Number, 10))
	line(strconv.FormatUint(e.Revision, 10))
	line(e.Time.UTC().Format(timeLayout))
	line(string(e.Action))
	line(e.Kind)
	if e.Until.IsZero() {
		line("")
	} else {
		line(e.Until.UTC().Format(endLayout))
	}
	line(e.Actor)
	line(e.TextsHash.String())
	line(e.OriginHash.String())
	return b
}

// Clear returns what is stored beside the chain part: the key and the text of the origin, then the key
// and the texts unless they were erased.
func (e *Entry) Clear() []byte {
	b := appendText(append([]byte(nil), e.OriginKey[:]...), e.From)
	if e.Erased {
		return b
	}
	return append(append(b, e.TextsKey[:]...), e.Texts.encode()...)
}

// oneLine replaces what cannot be in a line of a chain part.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(text, string(unicode.ReplacementChar)))
}

func commitment(key Key, text []byte) (h Hash) {
	mac := hmac.New(sha256.New, key[:])
	mac.Write(text)
	mac.Sum(h[:0])
	return h
}

// encode returns the texts as the package comment describes them.
func (t *Texts) encode() []byte {
	b := make([]byte, 0, 64+len(t.Object)+len(t.Before)+len(t.After)+len(t.Why))
	b = appendText(b, t.Object)
	b = appendText(b, string(t.Before))
	b = appendText(b, string(t.After))
	b = appendText(b, t.Why)
	for _, subject := range t.Subjects {
		b = appendText(b, subject)
	}
	return b
}

func appendText(b []byte, text string) []byte {
	b = append(strconv.AppendInt(b, int64(len(text)), 10), ':')
	return append(append(b, text...), ',')
}

var (
	errChain = errors.New("the chain part is not written as an entry of the audit trail")
	errClear = errors.New("the texts are not written as those of an entry of the audit trail")
)

// Parse reads an entry from its chain part and from what is stored beside it. The entry does not refer
// to the memory of either.
func Parse(chain, clear []byte) (e Entry, err error) {
	if err := e.parseChain(string(chain)); err != nil {
		return e, err
	}
	return e, e.parseClear(string(clear))
}

func (e *Entry) parseChain(chain string) error {
	line := strings.SplitN(chain, "\n", lines+1)
	if len(line) != lines+1 || line[0] != format {
		return errChain
	}
	var errs [7]error
	e.Number, errs[0] = strconv.ParseUint(line[2], 10, 64)
	e.Revision, errs[1] = strconv.ParseUint(line[3], 10, 64)
	e.Time, errs[2] = time.Parse(timeLayout, line[4])
	if line[7] != "" {
		e.Until, errs[3] = time.Parse(endLayout, line[7])
	}
	errs[4] = e.Previous.UnmarshalText([]byte(line[1]))
	errs[5] = e.TextsHash.UnmarshalText([]byte(line[9]))
	errs[6] = e.OriginHash.UnmarshalText([]byte(line[10]))
	e.Action, e.Kind, e.Actor = Action(line[5]), line[6], line[8]
	// The same entry has only one chain part.
	if errors.Join(errs[:]...) != nil || string(e.Chain()) != chain {
		return errChain
	}
	e.Hash = sha256.Sum256([]byte(chain))
	return nil
}

func (e *Entry) parseClear(clear string) error {
	key := len(e.OriginKey)
	if len(clear) < key {
		return errClear
	}
	copy(e.OriginKey[:], clear)
	from, rest, ok := cutText(clear[key:])
	e.From, e.Erased = from, rest == ""
	switch {
	case ok && e.Erased:
		return nil
	case !ok, len(rest) < key:
		return errClear
	}
	copy(e.TextsKey[:], rest)
	rest = rest[key:]
	var texts []string
	for rest != "" {
		var text string
		if text, rest, ok = cutText(rest); !ok {
			return errClear
		}
		texts = append(texts, text)
	}
	if len(texts) < 4 {
		return errClear
	}
	e.Texts = Texts{Object: texts[0], Before: raw(texts[1]), After: raw(texts[2]), Why: texts[3]}
	if len(texts) > 4 {
		e.Subjects = texts[4:]
	}
	return nil
}

// raw returns JSON; nil for an empty text.
func raw(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}

// cutText splits off the first text that appendText wrote.
func cutText(s string) (text, rest string, ok bool) {
	length, rest, ok := strings.Cut(s, ":")
	n, err := strconv.Atoi(length)
	if !ok || err != nil || n < 0 || n >= len(rest) || rest[n] != ',' || strconv.Itoa(n) != length {
		return "", "", false
	}
	return rest[:n], rest[n+1:], true
}
