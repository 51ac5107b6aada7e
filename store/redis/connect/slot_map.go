package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// SlotMap maps each partition of the keys to the server of a Cluster that holds it, as
// [SlotMap.Read] last read it; before that server 0 holds all. A server has a number as long as it
// holds a partition; then a new server may get the number. Make one with NewSlotMap. It is safe for
// concurrent use.
type SlotMap struct {
	tags    []string // tags of the partitions
	layout  atomic.Pointer[layout]
	due     atomic.Int64 // when to read it again, Unix time in nanoseconds
	reading sync.Mutex   // held during Read
	source  string       // address of the node that answered last; guarded by reading
}

const (
	// maxAge is the largest age of the map: a replica that becomes a primary is another server.
	maxAge = time.Second

	// soloTimeout is how long Read waits for the node that answered last before it asks the others.
	soloTimeout = 200 * time.Millisecond
)

// NewSlotMap returns a map of the partitions with these tags.
func NewSlotMap(tags []string) *SlotMap {
	m := &SlotMap{tags: tags}
	m.layout.Store(&layout{names: []string{""}, serverOf: make([]int, len(tags))})
	return m
}

// Due reports whether the map is too old. It returns true to one caller only, who must call Read.
func (m *SlotMap) Due(now time.Time) bool {
	at, due := now.UnixNano(), m.due.Load()
	return at >= due && m.due.CompareAndSwap(due, at+int64(maxAge))
}

// Server returns the number of the server that holds a partition.
func (m *SlotMap) Server(partition int) int { return max(0, m.layout.Load().serverOf[partition]) }

// Name returns HOST:PORT of a server, "" if no server has the number.
func (m *SlotMap) Name(number int) string {
	if names := m.layout.Load().names; number >= 0 && number < len(names) {
		return names[number]
	}
	return ""
}

// Each calls do for each server, with the tag of a partition that it holds.
func (m *SlotMap) Each(do func(number int, name, tag string)) {
	l := m.layout.Load()
	for number, name := range l.names {
		if p := slices.Index(l.serverOf, number); p >= 0 {
			do(number, name, m.tags[p])
		}
	}
}

// layout maps each partition to the server of a Cluster that holds it. It never changes; Read
// replaces it.
type layout struct {
	names    []string // name of each server by number, "" for a free number
	serverOf []int    // number of the server of each partition, -1 for none
}

// after returns the next layout, in which holders names the server of each partition; "" for none.
func (l *layout) after(holders []string) *layout {
	next := &layout{names: slices.Clone(l.names), serverOf: make([]int, len(holders))}
	for i, name := range next.names {
		if !slices.Contains(holders, name) {
			next.names[i] = ""
		}
	}
	for p, name := range holders {
		next.serverOf[p] = next.number(name)
	}
	return next
}

// number returns the number of a server, and gives it one if it is new.
func (l *layout) number(name string) int {
	if name == "" {
		return -1
	}
	i := slices.Index(l.names, name)
	if i < 0 {
		i = slices.Index(l.names, "")
	}
	if i < 0 {
		l.names = append(l.names, name)
		return len(l.names) - 1
	}
	l.names[i] = name
	return i
}

// Read asks the nodes of a Cluster, by their addresses, which server holds which slots: first the
// node that answered last, then all others at once.
func (m *SlotMap) Read(ctx context.Context, nodes map[string]rueidis.Client) error {
	m.reading.Lock()
	defer m.reading.Unlock()
	if last, ok := nodes[m.source]; ok {
		brief, cancel := context.WithTimeout(ctx, soloTimeout)
		holders, err := m.ask(brief, m.source, last)
		cancel()
		if err == nil {
			m.layout.Store(m.layout.Load().after(holders))
			return nil
		}
		delete(nodes, m.source)
	}
	type answer struct {
		holders []string
		source  string
		err     error
	}
	answers := make(chan answer, len(nodes))
	for address, node := range nodes {
		go func() {
			holders, err := m.ask(ctx, address, node)
			answers <- answer{holders, address, err}
		}()
	}
	err := errors.New("no node is known")
	for range nodes {
		a := <-answers
		if a.err == nil {
			m.source = a.source
			m.layout.Store(m.layout.Load().after(a.holders))
			return nil
		}
		err = a.err
	}
	return err
}

// ask asks a node which server holds each partition.
func (m *SlotMap) ask(ctx context.Context, address string, node rueidis.Client) ([]string, error) {
	ranges, err := node.Do(ctx, node.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(address)
	holders := make([]string, len(m.tags))
	for i := range ranges {
		first, last, name, err := readRange(ranges[i], host)
		if err != nil {
			return nil, err
		}
		for p, tag := range m.tags {
			if slot := int64(SlotOf(tag)); first <= slot && slot <= last {
				holders[p] = name
			}
		}
	}
	if !slices.ContainsFunc(holders, func(name string) bool { return name != "" }) {
		return nil, fmt.Errorf("%s lists no slots", address)
	}
	return holders, nil
}

// readRange reads an element of the answer to CLUSTER SLOTS: the first and last slot of a range and
// the nodes that hold it, the primary first. If the primary's host is unknown, it is that of the
// node that answered.
func readRange(m rueidis.RedisMessage, host string) (first, last int64, name string, err error) {
	parts, err := m.ToArray()
	if err != nil || len(parts) < 3 {
		return 0, 0, "", errLayout
	}
	primary, err := parts[2].ToArray()
	if err != nil || len(primary) < 2 {
		return 0, 0, "", errLayout
	}
	first, err1 := parts[0].AsInt64()
	last, err2 := parts[1].AsInt64()
	port, err3 := primary[1].AsInt64()
	if errors.Join(err1, err2, err3) != nil {
		return 0, 0, "", errLayout
	}
	if own, err := primary[0].ToString(); err == nil && own != "" && own != "?" {
		host = own
	}
	return first, last, net.JoinHostPort(host, strconv.FormatInt(port, 10)), nil
}

// errLayout is the error about an answer of another form.
var errLayout = errors.New("the answer to CLUSTER SLOTS cannot be read")
