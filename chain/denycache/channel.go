package denycache

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"stint/internal/system"
)

// Notices carries messages between the processes that share a store.
type Notices interface {
	// Publish sends a message to all who listen to a channel, this process among them,
	// and returns when it is on its way. What is published after that arrives later.
	Publish(ctx context.Context, channel, message string) error

	// Listen calls hear for each message of the channels, one after another, until ctx
	// is done or some may have been missed. The error says why it ended.
	Listen(ctx context.Context, channels []string, hear func(channel, message string)) error
}

const (
	// everybody is the channel for all processes.
	everybody = "refusals"

	// beatEvery is how often a process sends itself a beat.
	beatEvery = 250 * time.Millisecond

	// trust is how old the last beat may be. What others sent before it has arrived.
	trust = 900 * time.Millisecond

	// patience is how long a message may take to be sent.
	patience = time.Second

	// pause is the time between two attempts.
	pause = 100 * time.Millisecond

	// maxPending is how many keys wait to be sent before all are meant.
	maxPending = 1024
)

// everything stands for all keys where a hash stands for one.
const everything uint64 = 0

// The first byte of a message says what it is. One of another kind, of a later release,
// means all keys.
const (
	kindKeys = 'k' // their hashes of 8 bytes follow
	kindAll  = 'a'
	kindBeat = 'b' // the moment when it was sent follows
)

// errSilent says why a channel is of no use that nobody has ended.
var errSilent = errors.New("beats do not come back in time")

// channel is the way to the other processes.
type channel struct {
	own  string                 // the channel for beats
	last atomic.Pointer[moment] // when the newest beat that came back was sent; nil for none

	mu      sync.Mutex
	pending map[uint64]struct{} // keys to tell of
	waiting chan struct{}       // holds one while there are any

	telling sync.Mutex
	state   int // as OnChange was told
}

// The states of a channel.
const (
	unknown = iota
	up
	down
)

func (c *channel) init() {
	c.own = everybody + ":" + rand.Text()
	c.pending = make(map[uint64]struct{})
	c.waiting = make(chan struct{}, 1)
}

// tell has the others told that a key is to be forgotten.
func (s *Store) tell(hash uint64) {
	if s.notices == nil {
		return
	}
	c := &s.channel
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) >= maxPending {
		clear(c.pending)
		hash = everything
	}
	c.pending[hash] = struct{}{}
	select {
	case c.waiting <- struct{}{}:
	default:
	}
}

// message takes all that is pending as one message, "" for nothing.
func (c *channel) message() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 {
		return ""
	}
	_, all := c.pending[everything]
	text := []byte{kindKeys}
	for hash := range c.pending {
		text = binary.LittleEndian.AppendUint64(text, hash)
	}
	clear(c.pending)
	if all {
		return string([]byte{kindAll})
	}
	return string(text)
}

// fresh says whether all that others have told a second ago has arrived.
func (s *Store) fresh(now moment) bool {
	if s.notices == nil {
		return true
	}
	last := s.channel.last.Load()
	return last != nil && now.since(*last) < trust
}

// Run carries notices until ctx is done: the memory is used only while it runs. It is
// to be called once.
func (s *Store) Run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { s.beat(ctx) })
	if s.notices != nil {
		group.Go(func() { s.listen(ctx) })
		group.Go(func() { s.publish(ctx) })
	}
	group.Wait()
	s.channel.last.Store(nil)
	s.Drop()
}

// beat sends beats, and looks whether they come back.
func (s *Store) beat(ctx context.Context) {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for i := 0; ; i++ {
		s.sweep(i)
		if s.notices != nil {
			if now := s.now(); s.channel.last.Load() != nil && !s.fresh(now) {
				s.told(down, errSilent)
			}
			s.sendBeat(ctx)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// sendBeat sends one. One that is lost is missed where it should arrive.
func (s *Store) sendBeat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	now := s.now()
	text := binary.LittleEndian.AppendUint64([]byte{kindBeat}, uint64(now.mono))
	text = binary.LittleEndian.AppendUint64(text, uint64(now.wall))
	_ = s.notices.Publish(ctx, s.channel.own, string(text))
}

// listen hears what others tell.
func (s *Store) listen(ctx context.Context) {
	for {
		err := s.notices.Listen(ctx, []string{everybody, s.channel.own}, s.hear)
		if ctx.Err() != nil {
			return
		}
		s.channel.last.Store(nil)
		s.Drop()
		s.told(down, err)
		if !system.Wait(ctx, pause+mathrand.N(pause)) {
			return
		}
	}
}

// hear does what a message says.
func (s *Store) hear(from, text string) {
	data := []byte(text)
	switch {
	case from == s.channel.own && len(data) == 17 && data[0] == kindBeat:
		sent := moment{int64(binary.LittleEndian.Uint64(data[1:])), int64(binary.LittleEndian.Uint64(data[9:]))}
		s.channel.last.Store(&sent)
		if s.fresh(s.now()) {
			s.told(up, nil)
		}
	case len(data)%8 == 1 && data[0] == kindKeys:
		for data = data[1:]; len(data) > 0; data = data[8:] {
			s.forget(binary.LittleEndian.Uint64(data))
		}
	default:
		s.Drop()
	}
}

// publish tells the others what they have to forget, until they have been told.
func (s *Store) publish(ctx context.Context) {
	for {
		select {
		case <-s.channel.waiting:
			s.flush(ctx)
		case <-ctx.Done():
			s.flush(context.WithoutCancel(ctx))
			return
		}
	}
}

// flush sends what is pending. Where that fails it is all keys that are told of later.
func (s *Store) flush(ctx context.Context) {
	text := s.channel.message()
	if text == "" {
		return
	}
	sending, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.notices.Publish(sending, everybody, text); err != nil && ctx.Done() != nil {
		system.Wait(ctx, pause)
		s.tell(everything)
	}
}

// told tells whoever wants to know how the channel is, if that is new.
func (s *Store) told(state int, reason error) {
	c := &s.channel
	c.telling.Lock()
	defer c.telling.Unlock()
	if c.state == state {
		return
	}
	if c.state == up {
		s.lost.Add(1)
	}
	c.state = state
	if s.onChange != nil {
		s.onChange(state == up, reason)
	}
}
