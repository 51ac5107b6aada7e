package rls

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"stint/rule"
)

// decodeJSON reads the message from the JSON of Protocol Buffers: fields by either of
// their names, numbers as such or in quotes, null for what is not there. Unknown fields,
// fields that are there twice and strings that are no UTF-8 are refused.
func (m *message) decodeJSON(body []byte) error {
	m.reset()
	if !utf8.Valid(body) || loneSurrogate(body) {
		return errors.New("the body is not valid UTF-8; encode it so")
	}
	r := jsonReader{json.NewDecoder(bytes.NewReader(body))}
	r.UseNumber()
	token, err := r.token()
	if err == nil {
		err = r.object(token, []jsonField{
			{"domain", "domain", func(t json.Token) error { return text(t, &m.domain) }},
			{"descriptors", "descriptors", func(t json.Token) error {
				return r.list(t, func(t json.Token) error { return m.add().decodeJSON(r, t) })
			}},
			{"hitsAddend", "hits_addend", func(t json.Token) error { return whole32(t, &m.hits) }},
		})
	}
	if err != nil {
		return fmt.Errorf("the body is no RateLimitRequest: %w", err)
	}
	if _, err := r.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the request; send one object and nothing after it")
	}
	return nil
}

func (d *descriptor) decodeJSON(r jsonReader, token json.Token) error {
	return r.object(token, []jsonField{
		{"entries", "entries", func(t json.Token) error {
			return r.list(t, func(t json.Token) error {
				var e rule.Entry
				err := r.object(t, []jsonField{
					{"key", "key", func(t json.Token) error { return text(t, &e.Key) }},
					{"value", "value", func(t json.Token) error { return text(t, &e.Value) }},
				})
				d.entries = append(d.entries, e)
				return err
			})
		}},
		{"limit", "limit", func(t json.Token) error {
			d.limited = true
			return d.override.decodeJSON(r, t)
		}},
		{"hitsAddend", "hits_addend", func(t json.Token) (err error) {
			d.counted = true
			d.hits, err = whole(t, math.MaxUint64)
			return err
		}},
		{"isNegativeHits", "is_negative_hits", func(t json.Token) error {
			truth, ok := t.(bool)
			if d.negative = truth; !ok {
				return fmt.Errorf("%.40v where true or false belongs", t)
			}
			return nil
		}},
	})
}

func (o *override) decodeJSON(r jsonReader, token json.Token) error {
	return r.object(token, []jsonField{
		{"requestsPerUnit", "requests_per_unit", func(t json.Token) error { return whole32(t, &o.requests) }},
		{"unit", "unit", func(t json.Token) error { return o.readUnit(t) }},
		{"unitMultiplier", "unit_multiplier", func(t json.Token) error {
			o.scaled = true
			return whole32(t, &o.multiplier)
		}},
	})
}

// readUnit reads a unit by its name or number.
func (o *override) readUnit(token json.Token) error {
	if name, ok := token.(string); ok {
		for n, known := range units[:week] {
			if name == known.name {
				o.unit = int32(n)
				return nil
			}
		}
		return fmt.Errorf("unit %q is not known: use SECOND, MINUTE, HOUR, DAY, MONTH or YEAR", name)
	}
	n, err := whole(token, math.MaxInt32)
	o.unit = int32(n)
	return err
}

// jsonReader reads a body token by token.
type jsonReader struct{ *json.Decoder }

// jsonField is a field of an object: its two names, and what reads its value, which is
// not called for null.
type jsonField struct {
	name, original string
	read           func(json.Token) error
}

// token returns the next token.
func (r jsonReader) token() (json.Token, error) {
	token, err := r.Token()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("it ends too early; send the whole of it")
	}
	if err != nil {
		return nil, fmt.Errorf("%w; send JSON", err)
	}
	return token, nil
}

// object reads an object that began with token.
func (r jsonReader) object(token json.Token, fields []jsonField) error {
	if token != json.Delim('{') {
		return fmt.Errorf("%.40v where an object belongs", token)
	}
	var seen [4]bool
	for {
		token, err := r.token()
		if err != nil {
			return err
		}
		if token == json.Delim('}') {
			return nil
		}
		name := token.(string) // the decoder sees to it
		at := -1
		for i := range fields {
			if name == fields[i].name || name == fields[i].original {
				at = i
			}
		}
		if at < 0 {
			return fmt.Errorf("unknown field %q; leave it out", name)
		}
		if seen[at] {
			return fmt.Errorf("%s is given twice; give it once", name)
		}
		seen[at] = true
		if token, err = r.token(); err == nil && token != nil {
			err = fields[at].read(token)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

// list reads a list that began with token.
func (r jsonReader) list(token json.Token, each func(json.Token) error) error {
	if token != json.Delim('[') {
		return fmt.Errorf("%.40v where a list belongs", token)
	}
	for i := 0; ; i++ {
		token, err := r.token()
		if err == nil && token == json.Delim(']') {
			return nil
		}
		if err == nil {
			err = each(token)
		}
		if err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
}

func text(token json.Token, into *string) error {
	s, ok := token.(string)
	if !ok {
		return fmt.Errorf("%.40v where a string belongs", token)
	}
	*into = s
	return nil
}

func whole32(token json.Token, into *uint32) error {
	n, err := whole(token, math.MaxUint32)
	*into = uint32(n)
	return err
}

// whole reads a whole number, in quotes or not, as 5, 5.0 or 5e0.
func whole(token json.Token, most uint64) (uint64, error) {
	var written string
	switch t := token.(type) {
	case json.Number:
		written = t.String()
	case string:
		if t == "" || t[0] != '-' && (t[0] < '0' || t[0] > '9') || !json.Valid([]byte(t)) {
			return 0, fmt.Errorf("%q is no number", t)
		}
		written = t
	default:
		return 0, fmt.Errorf("%.40v where a number belongs", token)
	}
	n, err := strconv.ParseUint(written, 10, 64)
	if err != nil {
		f, wrong := strconv.ParseFloat(written, 64)
		if wrong != nil || f < 0 || f >= 1<<64 || f != math.Trunc(f) {
			return 0, fmt.Errorf("%.40s is not a whole number from 0 to %d", written, most)
		}
		n = uint64(f)
	}
	if n > most {
		return 0, fmt.Errorf("%.40s is above %d", written, most)
	}
	return n, nil
}

// loneSurrogate says whether an escape of a string in JSON is half of a pair, which
// the decoder would take for some other character: two requests that differ could mean
// the same key.
func loneSurrogate(body []byte) bool {
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' {
			continue
		}
		r, ok := escaped(body[i:])
		if !ok || !utf16.IsSurrogate(r) {
			i++
			continue
		}
		low, ok := escaped(body[i+6:])
		if !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
			return true
		}
		i += 11
	}
	return false
}

// escaped reads \u and four hex digits.
func escaped(body []byte) (rune, bool) {
	if len(body) < 6 || body[0] != '\\' || body[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(body[2:6]), 16, 16)
	return rune(n), err == nil
}
