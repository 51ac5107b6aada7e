package recordlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"stint/notify"
	"stint/store/redis/connect"
)

// The scripts of deliveries.
var (
	deliverAdd   = script("deliver_add")
	deliverClaim = script("deliver_claim")
	deliverSave  = script("deliver_save")
	deliverRetry = script("deliver_retry")
)

// retryBatch is the most deliveries that one call retries.
const retryBatch = 200

// Deliveries is a [notify.Queue] in Redis (6.2 and later) or Valkey, which nodes share. Times are those of the
// server, so the clocks of the nodes do not matter. All keys lie in one slot of a Cluster:
//
//	NAMESPACE:{webhooks}:events          hash: RECEIVER/ID, and the event in JSON
//	NAMESPACE:{webhooks}:results         hash: RECEIVER/ID, and the result of the last try in JSON
//	NAMESPACE:{webhooks}:leases          hash: RECEIVER/ID, and the mark of the last claim
//	NAMESPACE:{webhooks}:receivers       hash: name, and "PAUSED DISABLED" in milliseconds
//	NAMESPACE:{webhooks}:waiting:NAME    sorted set: ID by when it is due, or when its lease ends
//	NAMESPACE:{webhooks}:failed:NAME     sorted set: ID by when it was given up
//	NAMESPACE:{webhooks}:delivered:NAME  sorted set: ID by when it was delivered
//
// It connects at its first call and again after a connection was lost. No call takes much longer than a second.
// Deliveries are as durable as the other data of the server.
type Deliveries struct {
	link   connect.Link
	prefix string
}

var _ notify.Queue = (*Deliveries)(nil)

// OpenDeliveries returns the deliveries on the server of a URL, as in redis.Open; of several servers the first
// one has them. It does not connect. The error is a [*connect.URLError].
func OpenDeliveries(url, namespace string) (*Deliveries, error) {
	target, err := connect.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return &Deliveries{link: connect.Link{Target: target}, prefix: namespace + ":{webhooks}:"}, nil
}

// Close closes all connections.
func (d *Deliveries) Close() { d.link.Close() }

// keys returns the keys of a receiver, in the order in which the scripts expect them.
func (d *Deliveries) keys(receiver string) []string {
	return []string{
		d.prefix + "events", d.prefix + "results", d.prefix + "leases", d.prefix + "receivers",
		d.place(notify.Waiting, receiver), d.place(notify.Failed, receiver), d.place(notify.Delivered, receiver),
	}
}

// place returns the key of the sorted set of a receiver's deliveries in a state.
func (d *Deliveries) place(s notify.State, receiver string) string {
	return d.prefix + string(s) + ":" + receiver
}

// Add implements notify.Queue.
func (d *Deliveries) Add(ctx context.Context, list []notify.Delivery) error {
	keys := []string{d.prefix + "events", d.prefix + "receivers"}
	var args []string
	for i := range list {
		event, err := json.Marshal(&list[i].Event)
		if err != nil {
			return err
		}
		keys = append(keys, d.place(notify.Waiting, list[i].Receiver))
		args = append(args, list[i].Receiver, list[i].Event.ID, string(event))
	}
	_, err := do(ctx, &d.link, "store deliveries", callTimeout, func(ctx context.Context, c rueidis.Client) (none struct{}, err error) {
		return none, deliverAdd.Exec(ctx, c, keys, args).Error()
	})
	return err
}

// statusParts is the number of elements before the deliveries in the answer of deliver_claim.lua.
const statusParts = 8

// Claim implements notify.Queue.
func (d *Deliveries) Claim(ctx context.Context, c notify.Claim) (claimed notify.Claimed, err error) {
	mark := rand()
	answer, err := do(ctx, &d.link, "claim deliveries", callTimeout, func(ctx context.Context, client rueidis.Client) ([]rueidis.RedisMessage, error) {
		return deliverClaim.Exec(ctx, client, d.keys(c.Receiver), []string{
			c.Receiver, mark, millis(c.Lease), strconv.Itoa(c.Max), millis(notify.KeepFailed), millis(notify.KeepDelivered), strconv.Itoa(c.Keep),
		}).ToArray()
	})
	if err != nil {
		return claimed, err
	}
	if len(answer) < statusParts || (len(answer)-statusParts)%3 != 0 {
		return claimed, foreignDelivery("the answer", errors.New("it has another form"))
	}
	var n [statusParts]int64
	for i := range n {
		if n[i], err = numberOf(answer[i]); err != nil {
			return claimed, foreignDelivery("the state of "+c.Receiver, err)
		}
	}
	due := time.UnixMilli(n[0]).Add(c.Lease)
	claimed.Status = notify.ReceiverStatus{Paused: timeOf(n[1]), Disabled: timeOf(n[2]), Waiting: int(n[3]), Failed: int(n[4]), Delivered: int(n[5])}
	claimed.Wait = time.Duration(n[6]) * time.Millisecond
	if n[6] < 0 {
		claimed.Wait = -1
	}
	claimed.Dropped = int(n[7])
	for i := statusParts; i < len(answer); i += 3 {
		one := notify.Delivery{Receiver: c.Receiver, State: notify.Waiting, Due: due, Lease: mark}
		id, err := answer[i].ToString()
		if err == nil {
			err = parseDelivery(&one, id, answer[i+1], answer[i+2])
		}
		if err != nil {
			return claimed, err
		}
		claimed.Deliveries = append(claimed.Deliveries, one)
	}
	return claimed, nil
}

// numberOf returns a number that is a text or an integer.
func numberOf(m rueidis.RedisMessage) (int64, error) {
	if m.IsInt64() {
		return m.ToInt64()
	}
	return m.AsInt64()
}

// timeOf returns the time of milliseconds; zero for 0.
func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// parseDelivery parses the ID, the event and the result of a delivery. There may be no result.
func parseDelivery(d *notify.Delivery, id string, event, result rueidis.RedisMessage) error {
	text, err := event.ToString()
	if err == nil {
		err = json.Unmarshal([]byte(text), &d.Event)
	}
	if err == nil && d.Event.ID != id {
		err = fmt.Errorf("it is that of %q", d.Event.ID)
	}
	if last, none := result.ToString(); err == nil && none == nil && last != "" {
		err = json.Unmarshal([]byte(last), &d.Result)
	}
	if err != nil {
		return foreignDelivery("the event "+id, err)
	}
	return nil
}

// Save implements notify.Queue.
func (d *Deliveries) Save(ctx context.Context, one *notify.Delivery, then notify.Then) error {
	result, err := json.Marshal(one.Result)
	if err != nil {
		return err
	}
	disable := "0"
	if then.Disable {
		disable = "1"
	}
	args := []string{one.Receiver, one.Event.ID, one.Lease, string(one.State), string(result), millis(then.After), millis(then.Pause), disable}
	keys := d.keys(one.Receiver)
	_, err = do(ctx, &d.link, "store the result of a delivery", callTimeout, func(ctx context.Context, c rueidis.Client) (none struct{}, err error) {
		return none, deliverSave.Exec(ctx, c, keys, args).Error()
	})
	return err
}

// Retry implements notify.Queue.
func (d *Deliveries) Retry(ctx context.Context, receiver, id string) (total int, err error) {
	for {
		n, err := do(ctx, &d.link, "retry deliveries", callTimeout, func(ctx context.Context, c rueidis.Client) (int64, error) {
			return deliverRetry.Exec(ctx, c, d.keys(receiver), []string{receiver, id, strconv.Itoa(retryBatch)}).AsInt64()
		})
		total += int(n)
		if err != nil || n < retryBatch {
			return total, err
		}
	}
}

// List implements notify.Queue.
func (d *Deliveries) List(ctx context.Context, q notify.Query) (notify.List, error) {
	list, err := do(ctx, &d.link, "list deliveries", callTimeout, func(ctx context.Context, c rueidis.Client) (notify.List, error) {
		return d.list(ctx, c, q)
	})
	notify.SortNewest(list.Deliveries)
	return notify.List{Deliveries: list.Deliveries[:min(len(list.Deliveries), q.Limit)], Receivers: list.Receivers}, err
}

// list returns the states of all receivers, and the newest deliveries of each that q asks for.
func (d *Deliveries) list(ctx context.Context, c rueidis.Client, q notify.Query) (notify.List, error) {
	list := notify.List{Receivers: map[string]notify.ReceiverStatus{}}
	names, err := c.Do(ctx, c.B().Hgetall().Key(d.prefix+"receivers").Build()).AsStrMap()
	if err != nil {
		return list, err
	}
	for name, state := range names {
		if list.Receivers[name], err = d.status(ctx, c, name, state); err != nil {
			return list, err
		}
		if q.Receiver != "" && q.Receiver != name || q.Limit == 0 {
			continue
		}
		found, err := d.newest(ctx, c, q.State, name, q.Limit)
		if err != nil {
			return list, err
		}
		list.Deliveries = append(list.Deliveries, found...)
	}
	return list, nil
}

// status returns the state of a receiver.
func (d *Deliveries) status(ctx context.Context, c rueidis.Client, receiver, state string) (s notify.ReceiverStatus, err error) {
	var paused, disabled int64
	if _, err := fmt.Sscanf(state, "%d %d", &paused, &disabled); err != nil {
		return s, foreignDelivery("the state of "+receiver, err)
	}
	s.Paused, s.Disabled = timeOf(paused), timeOf(disabled)
	var commands rueidis.Commands
	// In this order, so that a delivery that moves meanwhile is not counted twice.
	for _, state := range []notify.State{notify.Delivered, notify.Failed, notify.Waiting} {
		commands = append(commands, c.B().Zcard().Key(d.place(state, receiver)).Build())
	}
	counts := []*int{&s.Delivered, &s.Failed, &s.Waiting}
	for i, answer := range c.DoMulti(ctx, commands...) {
		n, err := answer.AsInt64()
		if err != nil {
			return s, err
		}
		*counts[i] = int(n)
	}
	return s, nil
}

// newest returns the last deliveries of a receiver in a state.
func (d *Deliveries) newest(ctx context.Context, c rueidis.Client, state notify.State, receiver string, limit int) (list []notify.Delivery, err error) {
	scores, err := c.Do(ctx, c.B().Zrevrange().Key(d.place(state, receiver)).Start(0).Stop(int64(limit)-1).Withscores().Build()).AsZScores()
	if err != nil || len(scores) == 0 {
		return nil, err
	}
	fields := make([]string, len(scores))
	for i, score := range scores {
		fields[i] = receiver + "/" + score.Member
	}
	both := c.DoMulti(ctx,
		c.B().Hmget().Key(d.prefix+"events").Field(fields...).Build(),
		c.B().Hmget().Key(d.prefix+"results").Field(fields...).Build(),
	)
	events, err := both[0].ToArray()
	if err != nil {
		return nil, err
	}
	results, err := both[1].ToArray()
	if err != nil {
		return nil, err
	}
	for i := range min(len(events), len(results)) {
		one := notify.Delivery{Receiver: receiver, State: state}
		if state == notify.Waiting {
			one.Due = time.UnixMilli(int64(scores[i].Score))
		}
		if events[i].IsNil() {
			continue // swept meanwhile
		}
		if err := parseDelivery(&one, scores[i].Member, events[i], results[i]); err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// foreignDelivery returns the error about a value that is not of this package.
func foreignDelivery(what string, err error) error {
	return &connect.Error{
		Doing: "read deliveries", Problem: what + " in Redis is not of stint: " + err.Error(), Err: err,
		Hint: "somebody else writes into the namespace: delete the keys NAMESPACE:{webhooks}:*, or give this service another namespace",
	}
}
