package recordapi

import (
	"net/http"
	"strings"
	"time"

	"stint/internal/jsonbody"
	"stint/internal/text"
	"stint/records"
	"stint/records/apikey"
	"stint/records/transfer"
)

const (
	// defaultPrefix is the prefix of a new API key.
	defaultPrefix = "stint"

	// defaultOverlap is how long a key stays valid beside its replacement.
	defaultOverlap = 24 * time.Hour

	// minHash is the least number of digits by which a hash can be named.
	minHash = 8
)

// newKey is the answer with a new API key, the only one that has its text.
type newKey struct {
	Key string `json:"key,omitempty"`
	shown
	Repeated bool `json:"repeated,omitempty"` // the key was shown in the first answer, and is not stored
}

// hashOf returns the hash that a path names by its first digits.
func (a *api) hashOf(name string) (string, *jsonbody.Fault) {
	const hint = "write at least 8 of the 64 digits of its hash, as GET /v1/keys shows it; never the key itself"
	if _, err := apikey.Parse(name); err == nil || len(name) < minHash || strings.Trim(name, "0123456789abcdef") != "" {
		return "", jsonbody.NoSuch("no API key has this path", hint)
	}
	found, err := a.file.Page(records.APIKeys, name[:len(name)-1], step)
	if err != nil {
		return "", faultOf(err, false)
	}
	hash := ""
	for _, e := range found {
		switch is := e.Record.ID().Name; {
		case !strings.HasPrefix(is, name):
		case hash != "":
			return "", jsonbody.Bad("", "several API keys have a hash that begins with "+name, "write more digits")
		default:
			hash = is
		}
	}
	if hash == "" {
		return "", jsonbody.NoSuch("there is no API key with the hash "+name, hint)
	}
	return hash, nil
}

// keyBody is what a request says about a new key.
type keyBody struct {
	transfer.Fields
	prefix, overlap string
	raw             []byte
}

// readKey decodes the body of a request for a new key. replace is whether it replaces another.
func readKey(r *http.Request, replace bool) (b keyBody, f *jsonbody.Fault) {
	names := []string{"subject", "until", "why", "prefix"}
	if replace {
		names = []string{"overlap", "until", "why", "prefix"}
	}
	b.prefix = defaultPrefix
	b.raw, f = readObject(r, names, func(s *jsonbody.Scanner, name string) (f *jsonbody.Fault) {
		switch name {
		case "prefix":
			b.prefix, f = s.Text()
			b.prefix = strings.Clone(b.prefix)
		case "overlap":
			b.overlap, f = s.Text()
			b.overlap = strings.Clone(b.overlap)
		default:
			f = b.ReadJSON(s, name)
		}
		return f
	})
	return b, f
}

// make returns a new key and its record.
func (b *keyBody) make(now time.Time) (apikey.Secret, records.APIKey, *jsonbody.Fault) {
	secret, err := apikey.New(b.prefix)
	if err != nil {
		return secret, records.APIKey{}, jsonbody.Bad("prefix", text.Quote(b.prefix)+" is no prefix", err.Error())
	}
	key := records.APIKey{Hash: secret.Key().Hash(), Last: secret.Key().LastFour(), Subject: b.Subject, Why: b.Why}
	var f *jsonbody.Fault
	key.Until, f = transfer.Until("until", b.Until, now)
	return secret, key, f
}

func (a *api) createKey(w http.ResponseWriter, r *http.Request) {
	b, f := readKey(r, false)
	if f != nil {
		f.Write(w)
		return
	}
	secret, key, f := b.make(time.Now())
	if f != nil {
		f.Write(w)
		return
	}
	a.addKey(w, r, &b, secret, []records.Edit{{Put: key, IfAbsent: true}})
}

func (a *api) replaceKey(w http.ResponseWriter, r *http.Request, hash string) {
	b, f := readKey(r, true)
	if f != nil {
		f.Write(w)
		return
	}
	now := time.Now()
	secret, key, f := b.make(now)
	overlap := defaultOverlap
	if f == nil && b.overlap != "" {
		var err error
		if overlap, err = text.ParseDuration(b.overlap); err != nil || overlap < time.Second {
			f = jsonbody.Bad("overlap", text.Quote(b.overlap)+" is not a length of time of a second or more", "write it such as 24h or 7d; to end the old key now, revoke it")
		}
	}
	if f != nil {
		f.Write(w)
		return
	}
	found, there, err := a.file.Get(records.ID{Kind: records.APIKeys, Name: hash})
	old, isKey := found.Record.(records.APIKey)
	switch {
	case err != nil:
		a.failed(w, r, err, false)
		return
	case !there, !isKey:
		missing(records.ID{Kind: records.APIKeys, Name: hash}, collections["keys"]).Write(w)
		return
	case !old.InForce(now):
		(&jsonbody.Fault{Status: http.StatusConflict, Code: jsonbody.Conflict, Problem: "the API key has ended", Hint: "make a new one"}).Write(w)
		return
	}
	ending, next := records.Replacement(old, key, now.Add(overlap))
	a.addKey(w, r, &b, secret, []records.Edit{{Put: ending, IfMatch: found.Revision}, {Put: next, IfAbsent: true}})
}

// addKey makes a change whose last edit is a new key, and answers with the key.
func (a *api) addKey(w http.ResponseWriter, r *http.Request, b *keyBody, secret apikey.Secret, edits []records.Edit) {
	change, f := newChange(r, b.raw, b.Why)
	if f != nil {
		f.Write(w)
		return
	}
	change.Edits = edits
	outcome, ok := a.apply(w, r, &change)
	if !ok {
		return
	}
	answer := newKey{Key: secret.Reveal(), Repeated: outcome.Repeated}
	id := edits[len(edits)-1].Put.ID()
	if outcome.Repeated {
		answer.Key = ""
		if id, ok = a.madeAt(w, r, outcome.Revision); !ok {
			return
		}
	}
	e, there, err := a.file.Get(id)
	switch {
	case err != nil:
		a.failed(w, r, err, false)
		return
	case !there:
		missing(id, collections["keys"]).Write(w)
		return
	}
	answer.shown = show(e, time.Now())
	w.Header().Set("ETag", tag(e.Revision))
	status := http.StatusCreated
	if outcome.Repeated {
		status = http.StatusOK
	}
	jsonbody.WriteJSON(w, status, answer)
}

// madeAt returns the key that a change made, by its revision.
func (a *api) madeAt(w http.ResponseWriter, r *http.Request, revision uint64) (records.ID, bool) {
	for e, err := range a.file.All(records.APIKeys) {
		if err != nil {
			a.failed(w, r, err, false)
			return records.ID{}, false
		}
		key, isKey := e.Record.(records.APIKey)
		if isKey && e.Revision == revision && key.ReplacedBy == (apikey.Hash{}) {
			return key.ID(), true
		}
	}
	(&jsonbody.Fault{
		Status: http.StatusConflict, Code: jsonbody.Conflict,
		Problem: "the API key of this Idempotency-Key was made, and was changed or revoked since", Hint: "use another Idempotency-Key for a new API key",
	}).Write(w)
	return records.ID{}, false
}
