package recordapi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"stint/internal/jsonbody"
	"stint/internal/web"
	"stint/records"
	"stint/server/access"
)

// WhyHeader is the header with the reason of a change, for changes whose body has none.
const WhyHeader = "X-Stint-Why"

// idempotencyHeader is the header with a key that makes a repeat safe.
const idempotencyHeader = "Idempotency-Key"

// By returns who sent a request.
func By(r *http.Request) records.Actor {
	caller, _ := access.CallerOf(r.Context())
	by := records.Actor{Name: caller.Name}
	if addr := web.PeerAddr(r.RemoteAddr); addr.IsValid() {
		by.From = addr.String()
	}
	return by
}

// newChange returns the change of a request without its edits. why is the reason in the body.
func newChange(r *http.Request, body []byte, why string) (records.Change, *jsonbody.Fault) {
	c := records.Change{By: By(r), Why: why, IdempotencyKey: r.Header.Get(idempotencyHeader)}
	field := "why"
	if reason := r.Header.Get(WhyHeader); reason != "" {
		c.Why, field = reason, WhyHeader
	}
	if len(c.Why) > records.MaxText || !utf8.ValidString(c.Why) {
		return c, jsonbody.Bad(field, fmt.Sprintf("longer than %d bytes, or not UTF-8", records.MaxText), "shorten it, and refer to a ticket")
	}
	if c.IdempotencyKey != "" {
		sum := sha256.New()
		fmt.Fprintf(sum, "%s %s\n%s\n", r.Method, r.URL.RequestURI(), r.Header.Values("If-Match"))
		sum.Write(body)
		c.Request = hex.EncodeToString(sum.Sum(nil))
	}
	return c, nil
}

// condition reads If-Match and If-None-Match into a change and its edit. The tag is that of the whole
// where the path names no record. A star means that there must be such a record.
func (a *api) condition(r *http.Request, c *records.Change, e *records.Edit, whole bool) error {
	match, noneMatch := r.Header.Values("If-Match"), r.Header.Values("If-None-Match")
	if f := jsonbody.CheckTags(match, noneMatch, "the record"); f != nil {
		return &badHeader{f}
	}
	e.IfAbsent = noneMatch != nil
	if match == nil {
		return nil
	}
	id := e.Delete
	if e.Put != nil {
		id = e.Put.ID()
	}
	present, there, err := a.file.Get(id)
	if err != nil {
		return err
	}
	is := present.Revision
	if whole {
		if is, err = a.file.Revision(); err != nil {
			return err
		}
	}
	wanted := uint64(0)
	for _, tag := range jsonbody.Tags(match) {
		n, err := strconv.ParseUint(strings.Trim(tag, `"`), 10, 64)
		switch {
		case tag == "*" && !there:
			return &records.Error{Where: id.String(), Problem: "no such record", Hint: "leave out If-Match to make it", Err: records.ErrConflict}
		case tag == "*", err == nil && n == is && !strings.HasPrefix(tag, "W/"):
			wanted = is
		case wanted == 0 && err == nil:
			wanted = n
		}
	}
	if wanted == 0 {
		return &badHeader{jsonbody.Bad("If-Match", "no ETag of a record", "send the ETag of GET as it is")}
	}
	if whole {
		c.IfMatch = wanted
	} else {
		e.IfMatch = wanted
	}
	return nil
}

// badHeader is the error of a header that cannot be used.
type badHeader struct{ fault *jsonbody.Fault }

func (e *badHeader) Error() string { return e.fault.Message() }

// conditional reports whether a request names a revision.
func conditional(r *http.Request) bool {
	return r.Header.Get("If-Match") != "" || r.Header.Get("If-None-Match") != ""
}

// apply makes a change of a request, and logs it. It reports whether it did; otherwise it has
// answered.
func (a *api) apply(w http.ResponseWriter, r *http.Request, c *records.Change) (records.Outcome, bool) {
	outcome, err := a.file.Apply(r.Context(), *c, time.Now())
	if err != nil {
		a.failed(w, r, err, conditional(r))
		return outcome, false
	}
	if !outcome.Repeated {
		a.log.Info("records changed", "method", r.Method, "records", len(c.Edits), "revision", outcome.Revision, "caller", c.By.Name, "peer", r.RemoteAddr)
	}
	return outcome, true
}

// tag returns the entity tag of a revision.
func tag(revision uint64) string { return `"` + strconv.FormatUint(revision, 10) + `"` }
