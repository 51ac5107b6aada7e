package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"

	"stint/limiter/response"
)

// serveWatched serves an allowed request whose limits count responses. The watcher uses the
// scratch, and the verdict in it, until the end.
func (h *handler) serveWatched(w http.ResponseWriter, r *http.Request, s *scratch, next Next) (err error) {
	a := &watched{ResponseWriter: w, handler: h, request: r, scratch: s}
	end := func(status int) {
		a.settle(status)
		h.release(s)
	}
	status := http.StatusInternalServerError // if the handler panics
	defer func() {
		if err != nil && !a.settled && h.options.Failed != nil {
			h.options.Failed(r, err, end)
			return
		}
		end(status)
	}()
	seen := a.writer()
	if h.obey(seen, r, s) {
		h.observe(r, s, true)
		s.attributes.setCookies(w.Header())
		err = h.pass(seen, r, s, next)
	}
	if err == nil {
		status = http.StatusOK
	}
	return err
}

// watched is a ResponseWriter that settles the reservations of the request once, when its status is
// known and before it is sent to the client.
type watched struct {
	http.ResponseWriter
	handler *handler
	request *http.Request
	scratch *scratch
	once    sync.Once
	settled bool
}

// settle settles the reservations, even if the client has disconnected.
func (a *watched) settle(status int) {
	a.once.Do(func() {
		a.settled = true
		if err := response.Settle(a.request.Context(), a.handler.limiter, &a.scratch.Verdict, status); err != nil {
			a.handler.report(a.request, err)
		}
	})
}

// writer returns the ResponseWriter for the handler. It supports everything that the server's
// writer, or one that it unwraps to, supports.
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

// Unwrap supports http.ResponseController.
func (a *watched) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader settles with the status, unless it is informational or invalid; with an invalid one
// net/http panics.
func (a *watched) WriteHeader(status int) {
	if status >= http.StatusOK && status <= 999 || status == http.StatusSwitchingProtocols {
		a.settle(status)
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write settles with 200 if there is no status yet.
func (a *watched) Write(b []byte) (int, error) {
	a.settle(http.StatusOK)
	return a.ResponseWriter.Write(b)
}

// WriteString implements io.StringWriter.
func (a *watched) WriteString(s string) (int, error) {
	a.settle(http.StatusOK)
	return io.WriteString(a.ResponseWriter, s)
}

// ReadFrom passes src, such as a file, to the server's ReadFrom. If src is empty, no status is sent
// yet.
func (a *watched) ReadFrom(src io.Reader) (int64, error) {
	const begin = 512
	n, err := io.Copy(onlyWriter{a}, io.LimitReader(src, begin))
	if err != nil || n < begin {
		return n, err
	}
	rest, err := io.Copy(a.ResponseWriter, src)
	return n + rest, err
}

// onlyWriter hides all other methods of a writer.
type onlyWriter struct{ io.Writer }

// flushing is a watched that can flush.
type flushing struct{ *watched }

// flusher is the interface that http.ResponseController prefers to http.Flusher.
type flusher interface{ FlushError() error }

// Flush sends buffered data, after 200 if there is no status yet.
func (f flushing) Flush() { _ = f.FlushError() }

// FlushError is Flush with an error.
func (f flushing) FlushError() error {
	f.settle(http.StatusOK)
	return http.NewResponseController(f.ResponseWriter).Flush()
}

// hijacking is a writer of HTTP/1.
type hijacking struct{ flushing }

// Hijack settles with 101, because data written to the connection is not seen here.
func (h hijacking) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err == nil {
		h.settle(http.StatusSwitchingProtocols)
	}
	return conn, buffers, err
}

// pushing is a writer of HTTP/2.
type pushing struct{ flushing }

// Push implements http.Pusher.
func (p pushing) Push(target string, o *http.PushOptions) error {
	pusher, ok := find[http.Pusher](p.ResponseWriter)
	if !ok {
		return http.ErrNotSupported
	}
	return pusher.Push(target, o)
}

// find returns w as a T, or the first writer of type T that it unwraps to.
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
