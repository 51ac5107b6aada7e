package meta

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// link is one connection. A goroutine writes what callers have appended, all of it at once, and
// another reads the answers, which come in the order of the commands.
type link struct {
	c       net.Conn
	lost    func(*link) // called once, when the connection is lost
	stopped sync.WaitGroup

	mu      sync.Mutex
	buffer  []byte     // commands that the writer has not taken yet
	owed    []*pending // in the order in which they were sent
	taken   int        // how many of owed the writer has taken
	wake    *sync.Cond // for the writer
	broken  error      // why the connection is lost; nil: it is not
	waiting bool       // the reader has a deadline, as answers are owed
}

// pending are commands that were sent in one piece.
type pending struct {
	lines   []bool // for each command, whether lines answer it
	replies []Reply
	err     error
	done    chan struct{} // closed when all answers are there, or err is set
}

func newLink(c net.Conn, lost func(*link)) *link {
	l := &link{c: c, lost: lost}
	l.wake = sync.NewCond(&l.mu)
	l.stopped.Go(l.write)
	l.stopped.Go(l.read)
	return l
}

// send hands commands to the writer.
func (l *link) send(p *pending, commands []Command) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.broken != nil:
		return fmt.Errorf("%w: %w", ErrNotSent, l.broken)
	case len(l.owed) >= maxOwed:
		return fmt.Errorf("%w: %d commands have no answer yet", ErrNotSent, len(l.owed))
	}
	for i := range commands {
		p.lines[i] = commands[i].lines
		l.buffer = append(append(l.buffer, commands[i].text...), "\r\n"...)
	}
	l.owed = append(l.owed, p)
	if !l.waiting {
		l.waiting = true
		_ = l.c.SetReadDeadline(time.Now().Add(silence)) // a closed connection fails in read
	}
	l.wake.Signal()
	return nil
}

// write writes commands until the connection is lost.
func (l *link) write() {
	var buffer []byte
	for {
		l.mu.Lock()
		for len(l.buffer) == 0 && l.broken == nil {
			l.wake.Wait()
		}
		if l.broken != nil {
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		runtime.Gosched() // callers that have just got their answers send again: one write for all
		l.mu.Lock()
		buffer, l.buffer = l.buffer, buffer[:0]
		l.taken = len(l.owed)
		l.mu.Unlock()
		if err := l.c.SetWriteDeadline(time.Now().Add(silence)); err != nil {
			l.fail(err)
			return
		}
		if _, err := l.c.Write(buffer); err != nil {
			l.fail(err)
			return
		}
		if cap(buffer) > maxBuffer {
			buffer = nil
		}
	}
}

// maxBuffer is the largest buffer of commands, in bytes, that is used again.
const maxBuffer = 256 << 10

// read reads answers until the connection is lost.
func (l *link) read() {
	r := bufio.NewReaderSize(l.c, maxLine)
	for {
		if _, err := r.Peek(1); err != nil {
			l.fail(err)
			return
		}
		l.mu.Lock()
		if len(l.owed) == 0 {
			l.mu.Unlock()
			l.fail(l.unasked(r))
			return
		}
		p := l.owed[0] // from here on only this goroutine answers it
		l.owed[0] = nil
		l.owed, l.taken = l.owed[1:], l.taken-1
		l.mu.Unlock()
		err := p.read(r)
		if err == nil {
			l.answered(r.Buffered() == 0)
		}
		close(p.done)
		if err != nil {
			l.fail(err)
			return
		}
	}
}

// read reads the answers to commands.
func (p *pending) read(r *bufio.Reader) error {
	for _, lines := range p.lines {
		reply, err := readReply(r, lines)
		if err != nil {
			p.err = fmt.Errorf("%w: %w", ErrLost, err)
			return err
		}
		p.replies = append(p.replies, reply)
	}
	return nil
}

// unasked returns the error about what a server sent that was not asked: a server that has too many
// connections, or a listener that is no memcached.
func (l *link) unasked(r *bufio.Reader) error {
	text, _ := readLine(r) // the answer itself is the error
	return fmt.Errorf("%w: %.60q, without a command", errProtocol, text)
}

// answered moves the deadline of the reader, if it is about to wait for more answers, and removes it
// if no more are owed.
func (l *link) answered(waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.owed) == 0:
		l.owed, l.waiting = nil, false
		_ = l.c.SetReadDeadline(time.Time{}) // a closed connection fails in read
	case waits:
		_ = l.c.SetReadDeadline(time.Now().Add(silence)) // as above
	}
}

// fail closes the connection. All commands without an answer fail: those that the writer has taken
// with ErrLost, the others with ErrNotSent.
func (l *link) fail(err error) {
	l.mu.Lock()
	if l.broken != nil {
		l.mu.Unlock()
		return
	}
	l.broken = err
	owed, taken := l.owed, l.taken
	l.owed, l.buffer = nil, nil
	l.wake.Broadcast()
	l.mu.Unlock()
	l.lost(l)
	_ = l.c.Close() // err is the reason
	for i, p := range owed {
		p.err = fmt.Errorf("%w: %w", ErrLost, err)
		if i >= taken {
			p.err = fmt.Errorf("%w: %w", ErrNotSent, err)
		}
		close(p.done)
	}
}

// login authenticates a new connection, if there is a user: memcached reads user and password as the
// value of the first set.
func (o *Options) login(ctx context.Context, c net.Conn) error {
	if o.Login == nil {
		return nil
	}
	user, password, err := o.Login()
	if err != nil {
		return err
	}
	if until, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(until); err != nil {
			return err
		}
	}
	value := user + " " + password
	if _, err := c.Write([]byte("set login 0 0 " + strconv.Itoa(len(value)) + "\r\n" + value + "\r\n")); err != nil {
		return err
	}
	reply, err := readReply(bufio.NewReaderSize(c, maxLine), false)
	switch {
	case errors.Is(err, errProtocol), err == nil && reply.Status != Done:
		return ErrRejected
	case err != nil:
		return err
	}
	return c.SetDeadline(time.Time{})
}
