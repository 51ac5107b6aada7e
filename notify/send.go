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
		s := &lineSender{path: r.File, out: out}
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
	out  io.Writer // standard output

	mu sync.Mutex // held while a line is written
}

// try opens the file, to find an error before there is an event.
func (s *lineSender) try() error {
	if s.path == stdout {
		return nil
	}
	f, err := s.open()
	if err == nil {
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

// send implements sender.
func (s *lineSender) send(_ context.Context, e *Event) Answer {
	line, err := encodeLine(e)
	if err == nil {
		err = s.write(line)
	}
	if err != nil {
		return Answer{Problem: "cannot write the line: " + text.Cause(err)}
	}
	return Answer{}
}

// write appends a line, and returns when it is on disk.
func (s *lineSender) write(line []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path == stdout {
		_, err := s.out.Write(line)
		return err
	}
	f, err := s.open()
	if err != nil {
		return err
	}
	_, err = f.Write(line)
	return errors.Join(err, f.Sync(), f.Close())
}
