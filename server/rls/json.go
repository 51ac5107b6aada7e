package rls

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"stint/internal/jsonbody"
	"stint/internal/system"
)

// maxBody is the maximum size of a JSON request in bytes.
const maxBody = 1 << 20

// JSON returns the handler of POST /json. It takes a RateLimitRequest in the JSON of Protocol
// Buffers and returns a RateLimitResponse, with status 200 if the request may pass and 429 if not.
// An invalid request gets 400, and a failure of the store 503; these answers are error envelopes.
func (h *Handler) JSON() http.Handler { return http.HandlerFunc(h.serve) }

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		writeError(w, http.StatusMethodNotAllowed, jsonbody.Method, strconv.Quote(r.Method)+" is not a method of this path; use POST")
		return
	}
	body, err := jsonbody.Read(nil, r, maxBody)
	if err != nil {
		h.stats.service.Add(1)
		jsonbody.ReadFault(err, maxBody).Write(w)
		return
	}
	c := h.calls.Get().(*Call)
	defer h.release(c)
	if f := c.message.decodeJSON(body); f != nil {
		h.stats.service.Add(1)
		f.Write(w)
		return
	}
	c.RequestID = r.Header.Get("X-Request-Id")
	if err := h.decide(r.Context(), c); err != nil {
		status, kind := http.StatusBadRequest, jsonbody.BadRequest
		if e, ok := errors.AsType[*Error](err); ok && e.Err != nil && e.Code == unknownCode {
			status, kind = http.StatusServiceUnavailable, jsonbody.NoDecision
		}
		writeError(w, status, kind, err.Error())
		return
	}
	if hold := c.Delay(); hold > 0 && !system.Wait(r.Context(), hold) {
		h.Abandon(r.Context(), c)
		return
	}
	h.write(w, c)
}

// release puts a call into the pool unless it is large.
func (h *Handler) release(c *Call) {
	if c.KeepsLittle() {
		h.calls.Put(c)
	}
}

// write writes the response.
func (h *Handler) write(w http.ResponseWriter, c *Call) {
	c.out = c.appendJSON(c.out[:0], h.options.Metadata)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(c.out)))
	if c.response.over {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(c.out) // an error means that the client has disconnected
}

// writeError writes an error envelope.
func writeError(w http.ResponseWriter, status int, code, message string) {
	(&jsonbody.Fault{Status: status, Code: code, Problem: message}).Write(w)
}

// appendJSON appends the response in the JSON of Protocol Buffers, which omits zero values.
func (c *Call) appendJSON(dst []byte, metadata bool) []byte {
	r := &c.response
	dst = append(dst, `{"overallCode":`...)
	dst = appendCode(dst, r.over)
	for i := range r.statuses {
		dst = append(dst, separator(i, `,"statuses":[`)...)
		dst = r.statuses[i].appendJSON(dst)
	}
	if len(r.statuses) > 0 {
		dst = append(dst, ']')
	}
	n := 0
	for name, value := range c.fields.all {
		dst = append(dst, separator(n, `,"responseHeadersToAdd":[`)...)
		dst = appendString(append(dst, `{"key":`...), name)
		dst = appendString(append(dst, `,"value":`...), string(value))
		dst = append(dst, '}')
		n++
	}
	if n > 0 {
		dst = append(dst, ']')
	}
	if metadata {
		text, _ := json.Marshal(c.metadata.object) // never fails for values of rule files and requests
		dst = append(append(dst, `,"dynamicMetadata":`...), text...)
	}
	return append(dst, "}\n"...)
}

// separator returns the text before element i of a list that begins with start.
func separator(i int, start string) string {
	if i == 0 {
		return start
	}
	return ","
}

func (s *status) appendJSON(dst []byte) []byte {
	dst = appendCode(append(dst, `{"code":`...), s.over)
	if s.numbered {
		dst = append(dst, `,"currentLimit":{`...)
		begin := len(dst)
		if s.limit.name != "" {
			dst = appendString(append(dst, `,"name":`...), s.limit.name)
		}
		dst = appendNumber(dst, `,"requestsPerUnit":`, uint64(s.limit.requests))
		if s.limit.unit != unknownUnit {
			dst = appendString(append(dst, `,"unit":`...), units[s.limit.unit].name)
		}
		dst = appendNumber(dst, `,"unitMultiplier":`, uint64(s.limit.multiplier))
		if len(dst) > begin { // remove the first comma
			dst = append(dst[:begin], dst[begin+1:]...)
		}
		dst = append(dst, '}')
	}
	dst = appendNumber(dst, `,"limitRemaining":`, uint64(s.remaining))
	if s.numbered {
		dst = strconv.AppendInt(append(dst, `,"durationUntilReset":"`...), s.reset, 10)
		dst = append(dst, `s"`...)
	}
	if g := &s.grant; g.requests > 0 {
		dst = appendNumber(dst, `,"quota":{"requests":`, uint64(g.requests))
		dst = appendString(append(dst, `,"validUntil":`...), g.until.Time().UTC().Format("2006-01-02T15:04:05.000000Z"))
		dst = appendString(append(dst, `,"id":`...), g.id)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

func appendCode(dst []byte, over bool) []byte {
	if over {
		return append(dst, `"OVER_LIMIT"`...)
	}
	return append(dst, `"OK"`...)
}

// appendNumber appends a name and a number; nothing for 0.
func appendNumber(dst []byte, name string, n uint64) []byte {
	if n == 0 {
		return dst
	}
	return strconv.AppendUint(append(dst, name...), n, 10)
}

func appendString(dst []byte, text string) []byte {
	quoted, _ := json.Marshal(text) // never fails for a string
	return append(dst, quoted...)
}
