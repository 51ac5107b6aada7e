package recordlog

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"stint/store/redis/connect"
)

// maxNodes is the most nodes whose summaries are read.
const maxNodes = 1000

// Summaries are the summaries of the nodes of a namespace. All keys lie in one slot of a Cluster:
//
//	NAMESPACE:{summaries}:nodes      hash: name of a node, and for how many milliseconds a summary is kept
//	NAMESPACE:{summaries}:of:NAME    the summary of a node; expires
//
// It is safe for concurrent use. It connects at its first call and again after a connection was lost.
type Summaries struct {
	link      connect.Link
	nodes, of string
}

// OpenSummaries returns the summaries on the server of a URL, as in redis.Open; of several servers the first
// one has them. It does not connect. The error is a [*connect.URLError].
func OpenSummaries(url, namespace string) (*Summaries, error) {
	target, err := connect.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return &Summaries{
		link:  connect.Link{Target: target},
		nodes: namespace + ":{summaries}:nodes", of: namespace + ":{summaries}:of:",
	}, nil
}

// Close closes all connections.
func (s *Summaries) Close() { s.link.Close() }

// Publish makes data known as the summary of a node for the time keep.
func (s *Summaries) Publish(ctx context.Context, node string, data []byte, keep time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	client, err := s.link.Client(ctx)
	if err != nil {
		return connect.Explain("connect", err)
	}
	millis := strconv.FormatInt(keep.Milliseconds(), 10)
	for _, answer := range client.DoMulti(ctx,
		client.B().Set().Key(s.of+node).Value(rueidis.BinaryString(data)).PxMilliseconds(keep.Milliseconds()).Build(),
		client.B().Hset().Key(s.nodes).FieldValue().FieldValue(node, millis).Build(),
	) {
		if err = answer.Error(); err != nil {
			return connect.Explain("publish a summary", err)
		}
	}
	return nil
}

// Read returns the summaries of all nodes by their names. It removes the names of nodes without one.
func (s *Summaries) Read(ctx context.Context) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	client, err := s.link.Client(ctx)
	if err != nil {
		return nil, connect.Explain("connect", err)
	}
	names, err := client.Do(ctx, client.B().Hgetall().Key(s.nodes).Build()).AsStrMap()
	if err != nil {
		return nil, connect.Explain("read the names of nodes", err)
	}
	all := map[string][]byte{}
	var gone []string
	for name := range names {
		if len(all)+len(gone) == maxNodes {
			break
		}
		data, err := client.Do(ctx, client.B().Get().Key(s.of+name).Build()).AsBytes()
		switch {
		case rueidis.IsRedisNil(err):
			gone = append(gone, name)
		case err != nil:
			return nil, connect.Explain("read a summary", err)
		default:
			all[name] = data
		}
	}
	if len(gone) > 0 {
		// A node that publishes at the same time is missing until it does so again. An error leaves names
		// that the next call removes.
		_ = client.Do(ctx, client.B().Hdel().Key(s.nodes).Field(gone...).Build()).Error()
	}
	return all, nil
}
