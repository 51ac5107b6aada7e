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

// Notices sends messages between the processes that share a store.
type Notices interface {
	// Publish sends a message to all who listen to a channel, including this process, and returns
	// when it is sent. Messages of later calls arrive later.
	Publish(ctx context.Context, channel, message string) error

	// Listen calls onMessage for each message of the channels, one after another, until ctx is done
	// or messages may have been lost. The error says why it ended.
	Listen(ctx context.Context, channels []string, onMessage func(channel, message string)) error
}

const (
	// sharedChannel is the channel of all processes.
	sharedChannel = "refusals"

	// beatEvery is the time between two beats that a process sends to itself.
	beatEvery = 250 * time.Millisecond

	// maxBeatAge is the largest age of the last beat with which the cache is used. Messages that
	// others sent before that beat have arrived.
	maxBeatAge = 900 * time.Millisecond

	// sendTimeout is how long sending a message may take.
	sendTimeout = time.Second

	// pause is the time between two attempts.
	pause = 100 * time.Millisecond

	// maxPending is how many keys may wait to be sent; beyond that the message is for all keys.
	maxPending = 1024
)

// allKeys stands for all keys in place of the hash of one.
const allKeys uint64 = 0

// The first byte of a message is its kind. An unknown kind, from a later release, means all keys.
const (
	kindKeys = 'k' // followed by their hashes, 8 bytes each
	kindAll  = 'a'
	kindBeat = 'b' // followed by the moment of sending
)

// errNoBeats is the reason that notices are down if Listen goes on without beats.
var errNoBeats = errors.New("beats do not come back in time")

// channel is the connection to the other processes.
type channel struct {
	own  string                 // name of the channel for beats
	last atomic.Pointer[moment] // when the newest beat that arrived was sent; nil: none

	mu      sync.Mutex
	pending map[uint64]struct{} // hashes of keys to send
	waiting chan struct{}       // has one element while some are pending

	telling sync.Mutex
	state   int // state in the last call of OnChange
}

// The states of a channel.
const (
	unknown = iota
	up
	down
)

func (c *channel) init() {
	c.own = sharedChannel + ":" + rand.Text()
	c.pending = make(map[uint64]struct{})
	c.waiting = make(chan struct{}, 1)
}

// notify makes publish tell the other processes to forget a key.
func (s *Store) notify(hash uint64) {
	if s.notices == nil {
		return
	}
	c := &s.channel
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) >= maxPending {
		clear(c.pending)
		hash = allKeys
	}
	c.pending[hash] = struct{}{}
	select {
	case c.waiting <- struct{}{}:
	default:
	}
}

// message returns a message with all pending keys and clears them, "" if there are none.
func (c *channel) message() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 {
		return ""
	}
	_, all := c.pending[allKeys]
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

// fresh reports whether all notices that others sent up to a second ago have arrived.
func (s *Store) fresh(now moment) bool {
	if s.notices == nil {
		return true
	}
	last := s.channel.last.Load()
	return last != nil && now.since(*last) < maxBeatAge
}

// Run sends and receives notices until ctx is done. The cache is used only while Run runs. Call it
// once.
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

// beat sends beats, and checks that they arrive.
func (s *Store) beat(ctx context.Context) {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for i := 0; ; i++ {
		s.sweep(i)
		if s.notices != nil {
			if now := s.now(); s.channel.last.Load() != nil && !s.fresh(now) {
				s.setState(down, errNoBeats)
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

// sendBeat sends a beat. It ignores an error, as the beat then does not arrive.
func (s *Store) sendBeat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	now := s.now()
	text := binary.LittleEndian.AppendUint64([]byte{kindBeat}, uint64(now.mono))
	text = binary.LittleEndian.AppendUint64(text, uint64(now.wall))
	_ = s.notices.Publish(ctx, s.channel.own, string(text))
}

// listen receives the messages of other processes.
func (s *Store) listen(ctx context.Context) {
	for {
		err := s.notices.Listen(ctx, []string{sharedChannel, s.channel.own}, s.receive)
		if ctx.Err() != nil {
			return
		}
		s.channel.last.Store(nil)
		s.Drop()
		s.setState(down, err)
		if !system.Wait(ctx, pause+mathrand.N(pause)) {
			return
		}
	}
}

// receive handles a message.
func (s *Store) receive(from, text string) {
	data := []byte(text)
	switch {
	case from == s.channel.own && len(data) == 17 && data[0] == kindBeat:
		sent := moment{int64(binary.LittleEndian.Uint64(data[1:])), int64(binary.LittleEndian.Uint64(data[9:]))}
		s.channel.last.Store(&sent)
		if s.fresh(s.now()) {
			s.setState(up, nil)
		}
	case len(data)%8 == 1 && data[0] == kindKeys:
		for data = data[1:]; len(data) > 0; data = data[8:] {
			s.forget(binary.LittleEndian.Uint64(data))
		}
	default:
		s.Drop()
	}
}

// publish sends the pending keys to the other processes until ctx is done.
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

// flush sends the pending keys. If that fails it makes all keys pending.
func (s *Store) flush(ctx context.Context) {
	text := s.channel.message()
	if text == "" {
		return
	}
	sending, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if err := s.notices.Publish(sending, sharedChannel, text); err != nil && ctx.Done() != nil {
		system.Wait(ctx, pause)
		s.notify(allKeys)
	}
}

// setState stores whether notices arrive, and calls OnChange if that has changed.
func (s *Store) setState(state int, reason error) {
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
