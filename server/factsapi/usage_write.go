package factsapi

import (
	"net/http"
	"time"

	"stint/internal/jsonbody"
)

// A client has to read readPart bytes of an answer in each partTime: one that stops reading would keep the memory of
// the answer, and the turn of those who wait for it.
const (
	readPart = 64 << 10
	partTime = 10 * time.Second
)

// readWriter writes an answer to a client as long as the client reads it. It needs the deadlines of
// jsonbody.ExtendDeadlines, which it makes shorter.
type readWriter struct {
	http.ResponseWriter
	end      time.Time // of the whole answer
	deadline time.Time // of the part
	left     int       // bytes of the part that are not written yet
	sent     int64
	slow     bool // the client did not read the part in time
}

func newReadWriter(w http.ResponseWriter) *readWriter {
	return &readWriter{ResponseWriter: w, end: time.Now().Add(jsonbody.ImportTime)}
}

// Write implements http.ResponseWriter.
func (w *readWriter) Write(b []byte) (n int, err error) {
	for len(b) > 0 && err == nil {
		if w.left == 0 {
			w.left, w.deadline = readPart, time.Now().Add(partTime)
			if w.deadline.After(w.end) {
				w.deadline = w.end
			}
			// An error means that the connection has no deadlines.
			_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(w.deadline)
		}
		var part int
		part, err = w.ResponseWriter.Write(b[:min(len(b), w.left)])
		n, b, w.left = n+part, b[part:], w.left-part
	}
	w.sent += int64(n)
	w.slow = w.slow || err != nil && !time.Now().Before(w.deadline)
	return n, err
}

// Unwrap lets http.ResponseController find the connection.
func (w *readWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
