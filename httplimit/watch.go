package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"

	"stint/limiter/response"
)

// serveWatched goes on with a request that was decided, and whose limits count
// answers. The scratch, and the verdict in it, is the watcher's until the end.
func (h *handler) serveWatched(w http.ResponseWriter, r *http.Request, s *scratch) {
	a := &watched{ResponseWriter: w, handler: h, request: r, scratch: s}
	status := http.StatusInternalServerError // where the handler panics
	defer func() {
		a.settle(status)
		h.release(s)
	}()
	seen := a.writer()
	if h.obey(seen, r, s) {
		s.attributes.setCookies(w.Header())
		h.next.ServeHTTP(seen, r)
	}
	status = http.StatusOK
}

// watched is a ResponseWriter that settles what the request has reserved, once, when
// its status is known, and before the client can know it.
type watched struct {
	http.ResponseWriter
	handler *handler
	request *http.Request
	scratch *scratch
	once    sync.Once
}

// settle ends what the request has reserved, even if the client is gone.
func (a *watched) settle(status int) {
	a.once.Do(func() {
		if err := response.Settle(a.request.Context(), a.handler.limiter, &a.scratch.Verdict, status); err != nil {
			a.handler.report(a.request, err)
		}
	})
}

// writer returns the ResponseWriter for the handler. It can do what the one of the
// server can, or one that this unwraps to.
func (a *watched) writer() http.ResponseWriter {
	if !can[http.Flusher](a.ResponseWriter) && !can[flusher](a.ResponseWriter) {
		return a
	}
	f := flushing{a}
	switch {
	case can[http.Hijacker](a.ResponseWriter):
		return hijacking{f}
	case can[http.Pusher](a.ResponseWriter):
		return pushing{f}
	}
	return f
}

// Unwrap is for http.ResponseController.
func (a *watched) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader settles by the status, unless it is only informational, or none at all: then
// net/http panics.
func (a *watched) WriteHeader(status int) {
	if status >= http.StatusOK && status <= 999 || status == http.StatusSwitchingProtocols {
		a.settle(status)
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write settles as 200 where there is no status yet.
func (a *watched) Write(b []byte) (int, error) {
	a.settle(http.StatusOK)
	return a.ResponseWriter.Write(b)
}

// WriteString is part of io.StringWriter.
func (a *watched) WriteString(s string) (int, error) {
	a.settle(http.StatusOK)
	return io.WriteString(a.ResponseWriter, s)
}

// ReadFrom leaves it to the server how it sends what comes from src, such as a file.
// Where src is empty, nothing is answered yet.
func (a *watched) ReadFrom(src io.Reader) (int64, error) {
	const begin = 512
	n, err := io.Copy(onlyWriter{a}, io.LimitReader(src, begin))
	if err != nil || n < begin {
		return n, err
	}
	rest, err := io.Copy(a.ResponseWriter, src)
	return n + rest, err
}

// onlyWriter hides that a writer can do more.
type onlyWriter struct{ io.Writer }

// flushing is one that flushes.
type flushing struct{ *watched }

// flusher is what http.ResponseController prefers to http.Flusher.
type flusher interface{ FlushError() error }

// Flush sends what is written, and 200 before that where there is no status yet.
func (f flushing) Flush() { _ = f.FlushError() }

// FlushError is Flush that says what went wrong.
func (f flushing) FlushError() error {
	f.settle(http.StatusOK)
	return http.NewResponseController(f.ResponseWriter).Flush()
}

// hijacking is one of HTTP/1.
type hijacking struct{ flushing }

// Hijack settles as 101: what is written to the connection itself nobody sees.
func (h hijacking) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err == nil {
		h.settle(http.StatusSwitchingProtocols)
	}
	return conn, buffers, err
}

// pushing is one of HTTP/2.
type pushing struct{ flushing }

// Push is part of http.Pusher.
func (p pushing) Push(target string, o *http.PushOptions) error {
	pusher, ok := find[http.Pusher](p.ResponseWriter)
	if !ok {
		return http.ErrNotSupported
	}
	return pusher.Push(target, o)
}

// find returns what a ResponseWriter is, or one that it unwraps to.
func find[T any](w http.ResponseWriter) (found T, ok bool) {
	for {
		if found, ok = w.(T); ok {
			return found, true
		}
		outer, wraps := w.(interface{ Unwrap() http.ResponseWriter })
		if !wraps {
			return found, false
		}
		w = outer.Unwrap()
	}
}

func can[T any](w http.ResponseWriter) bool {
	_, ok := find[T](w)
	return ok
}
