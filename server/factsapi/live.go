package factsapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"stint/facts"
	"stint/internal/system"
	"stint/server/access"
)

// Frame is one event of /v1/live.
type Frame struct {
	At    time.Time    `json:"at"`
	Nodes []facts.Node `json:"nodes"`

	// Rules have the counts of rules, as in facts.Summary. The first frame of a stream has all rules; later
	// ones have those whose counts changed since the frame before.
	Rules []FrameRule `json:"rules"`
}

// FrameRule has the counts of a rule.
type FrameRule struct {
	Domain string `json:"domain"`
	Name   string `json:"name"`
	facts.Counts
}

// writeTime is how long a client may take to accept a frame. A slower one is disconnected.
const writeTime = 10 * time.Second

// hub builds frames while there are viewers, each frame once for all of them.
type hub struct {
	facts func(context.Context) facts.Summary
	every time.Duration
	done  <-chan struct{}

	mu      sync.Mutex
	viewers map[chan []byte]bool
	stop    context.CancelFunc // ends the goroutine that builds frames; nil if none runs
	last    map[[2]string]facts.Counts
}

func newHub(o Options) *hub {
	if o.Counts == nil {
		o.Counts = o.Facts.Summary
	}
	return &hub{facts: o.Counts, every: o.Every, done: o.Done, viewers: map[chan []byte]bool{}}
}

// serve streams frames until the client leaves, or its guard does not know it any more.
func (h *hub) serve(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // for nginx
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	frames := h.join()
	defer h.leave(frames)
	next := event(frameOf(h.facts(r.Context()), nil))
	for {
		// An error means that the connection has no deadline.
		_ = control.SetWriteDeadline(time.Now().Add(writeTime))
		if _, err := w.Write(next); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-h.done:
			return
		case next = <-frames:
			if !access.Lasts(r) {
				return
			}
		}
	}
}

// join adds a viewer and starts to build frames for the first one.
func (h *hub) join() chan []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	frames := make(chan []byte, 1)
	h.viewers[frames] = true
	if h.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		h.stop = stop
		go h.run(ctx)
	}
	return frames
}

// leave removes a viewer, and stops building frames after the last one.
func (h *hub) leave(frames chan []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.viewers, frames)
	if len(h.viewers) == 0 {
		h.stop()
		h.stop, h.last = nil, nil
	}
}

// run builds a frame in each interval until ctx is done.
func (h *hub) run(ctx context.Context) {
	system.Every(ctx, h.every, func() {
		summary := h.facts(ctx)
		h.mu.Lock()
		defer h.mu.Unlock()
		if ctx.Err() == nil {
			h.sendLocked(summary)
		}
	})
}

// sendLocked gives a frame to all viewers. A viewer that has not taken its last frame gets a newer one with
// all rules.
func (h *hub) sendLocked(s facts.Summary) {
	changed := event(frameOf(s, h.last))
	var whole []byte
	for frames := range h.viewers {
		next := changed
		select {
		case <-frames:
			if whole == nil {
				whole = event(frameOf(s, nil))
			}
			next = whole
		default:
		}
		frames <- next
	}
	h.last = map[[2]string]facts.Counts{}
	for i := range s.Rules {
		r := &s.Rules[i]
		h.last[[2]string{r.Domain, r.Name}] = r.Counts
	}
}

// frameOf returns the frame of a summary, with the rules whose counts differ from those before; nil:
// all rules.
func frameOf(s facts.Summary, before map[[2]string]facts.Counts) Frame {
	f := Frame{At: s.At, Nodes: list(s.Nodes), Rules: []FrameRule{}}
	for i := range s.Rules {
		r := &s.Rules[i]
		if counts, known := before[[2]string{r.Domain, r.Name}]; !known || counts != r.Counts {
			f.Rules = append(f.Rules, FrameRule{r.Domain, r.Name, r.Counts})
		}
	}
	return f
}

// event returns a frame as a server-sent event.
func event(f Frame) []byte {
	var b bytes.Buffer
	b.WriteString("data: ")
	_ = json.NewEncoder(&b).Encode(f) // cannot fail: a Frame has texts, numbers and times
	b.WriteString("\n")
	return b.Bytes()
}
