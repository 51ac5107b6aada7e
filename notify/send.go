package notify

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"

	"stint/internal/text"
)

// sender sends an event to one receiver once.
type sender interface {
	send(ctx context.Context, e *Event) Answer
}

// newSender returns the sender of a checked receiver. out is standard output. The error is an [*Error].
func newSender(r *Receiver, resolver *net.Resolver, out io.Writer) (sender, error) {
	if r.File != "" {
		s := newLineSender(r.File, out)
		return s, s.try()
	}
	secrets, err := r.readSecrets()
	if err != nil {
		return nil, err
	}
	return &hookSender{receiver: r, client: NewClient(ClientOptions{URL: r.URL, Allow: r.Allow, Resolver: resolver}), secrets: secrets}, nil
}

// hookSender posts events to a URL.
type hookSender struct {
	receiver *Receiver
	client   *Client

	mu      sync.Mutex
	secrets []Secret // those of the last time that the file could be read
}

// send implements sender.
func (s *hookSender) send(ctx context.Context, e *Event) Answer {
	body, err := encodeBody(e)
	if err != nil {
		return Answer{Problem: err.Error(), Useless: true}
	}
	return s.client.Send(ctx, Message{ID: e.ID, Body: body}, s.current())
}

// current returns the secrets of the file. While it cannot be read, such as during its replacement, those from
// before stay valid.
func (s *hookSender) current() []Secret {
	secrets, err := s.receiver.readSecrets()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.secrets = secrets
	}
	return s.secrets
}

// lineSender appends events to a file, as lines in JSON. It opens the file for each line, so that another program
// can rename it at any time.
type lineSender struct {
	path string
	out  io.Writer     // standard output
	turn chan struct{} // has an element while a line is written
}

func newLineSender(path string, out io.Writer) *lineSender {
	return &lineSender{path, out, make(chan struct{}, 1)}
}

// try opens the file, to find an error before there is an event. A named pipe has to wait for its reader.
func (s *lineSender) try() error {
	if info, err := os.Stat(s.path); s.path == stdout || err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		return nil
	}
	f, err := s.open()
	if err == nil {
		s.endLine(f)
		err = f.Close()
	}
	if err != nil {
		return &Error{"file", "cannot write " + s.path + ": " + text.Cause(err), "make its folder, and let this user write in it", err}
	}
	return nil
}

func (s *lineSender) open() (*os.File, error) {
	return os.OpenFile(s.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
}

// errStuck means that a pipe is full, as nobody reads it.
var errStuck = errors.New("nobody reads the lines")

// send implements sender. It returns when ctx is done, or after Timeout, also if nobody reads a pipe: the line may still be
// written then, before any other.
func (s *lineSender) send(ctx context.Context, e *Event) Answer {
	line, err := encodeLine(e)
	if err == nil {
		err = s.writeWithin(ctx, line)
	}
	if err != nil {
		return Answer{Problem: "cannot write the line: " + text.Cause(err)}
	}
	return Answer{}
}

func (s *lineSender) writeWithin(ctx context.Context, line []byte) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return errStuck
	}
	done := make(chan error, 1)
	go func() {
		done <- s.write(line)
		<-s.turn
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errStuck
	}
}

// endLine ends the last line of the file, which a crash may have cut off: the next one begins on a line of its own.
func (s *lineSender) endLine(f *os.File) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return
	}
	reader, err := os.Open(s.path)
	if err != nil {
		return // it can be written only
	}
	last := []byte{'\n'}
	_, _ = reader.ReadAt(last, info.Size()-1)
	_ = reader.Close()
	if last[0] != '\n' {
		_, _ = f.WriteString("\n") // the next line says if the disk is full
	}
}

// write appends a line, and returns when it is on disk. Of a line for which there is no room it leaves nothing.
func (s *lineSender) write(line []byte) error {
	if s.path == stdout {
		_, err := s.out.Write(line)
		return err
	}
	f, err := s.open()
	if err != nil {
		return err
	}
	n, err := f.Write(line)
	info, failed := f.Stat()
	switch {
	case failed != nil || !info.Mode().IsRegular(): // a pipe or a device keeps nothing
		return errors.Join(err, f.Close())
	case err != nil && n > 0:
		removeLast(f, int64(n))
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// removeLast removes the bytes that were just written, unless another process has written more behind them.
func removeLast(f *os.File, n int64) {
	info, err := f.Stat()
	end, failed := f.Seek(0, io.SeekCurrent)
	if err == nil && failed == nil && info.Size() == end {
		_ = f.Truncate(end - n) // the error of the line says what is wrong
	}
}
