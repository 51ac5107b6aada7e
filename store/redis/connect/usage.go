package connect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"strconv"

	"github.com/redis/rueidis"

	"stint"
	"stint/internal/transaction"
	"stint/store/redis/script"
)

// UsageIn returns the history of a take's key, which lies in a partition. Its names are those of the
// take if there is none. It has the book of the key.
func (s *Side) UsageIn(ctx context.Context, t *stint.Take, partition int) (transaction.Usage, error) {
	u := transaction.UsageOf(t)
	client, err := s.client(ctx)
	if err != nil {
		return u, err
	}
	prefix := s.prefixes[partition]
	answers := client.DoMulti(ctx,
		client.B().Hgetall().Key(script.UsageKey(prefix, t.Key)).Build(), client.B().Get().Key(script.BookKey(prefix, t.Key)).Build())
	fields, err := answers[0].AsStrMap()
	if err == nil && len(fields) > 0 {
		if u, err = script.ReadUsage(fields); err != nil {
			return u, err
		}
	}
	book := ""
	if err == nil {
		book, err = answers[1].ToString()
	}
	switch {
	case rueidis.IsRedisNil(err):
		return u, nil
	case err != nil:
		return u, Explain("read a history", err)
	}
	return u, script.AddBook(&u, book)
}

// Usages calls yield for the history of each key until it returns false.
func (s *Side) Usages(ctx context.Context, yield func(transaction.Usage) bool) error {
	client, err := s.client(ctx)
	if err != nil {
		return err
	}
	for _, prefix := range s.prefixes {
		var wrong error
		seen := map[[sha256.Size]byte]bool{} // hashes of keys, which are shorter
		more, err := eachHash(ctx, client, script.UsagesKey(prefix), func(key string, fields map[string]string) bool {
			hash := sha256.Sum256([]byte(key))
			if seen[hash] {
				return true
			}
			seen[hash] = true
			var u transaction.Usage
			u, wrong = script.ReadUsage(fields)
			return wrong == nil && yield(u)
		})
		if err = cmp.Or(wrong, err); err != nil || !more {
			return err
		}
	}
	return nil
}

// Pending returns at most most events of the outbox, those of a partition in order.
func (s *Side) Pending(ctx context.Context, most int) (all []transaction.Event, err error) {
	client, err := s.client(ctx)
	if err != nil {
		return nil, err
	}
	for _, prefix := range s.prefixes {
		order, events := script.OutboxKeys(prefix)
		ids, values, err := firstOf(ctx, client, order, events, most-len(all))
		if err != nil {
			return nil, err
		}
		for i, id := range ids {
			if values[i] == "" { // done meanwhile
				continue
			}
			e, err := script.ReadEvent(id, values[i])
			if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
	}
	return all, nil
}

// Done removes events from the outbox by their IDs.
func (s *Side) Done(ctx context.Context, ids []string) error {
	client, err := s.client(ctx)
	if err != nil {
		return err
	}
	for _, prefix := range s.prefixes {
		order, events := script.OutboxKeys(prefix)
		if err := removeFrom(ctx, client, order, events, ids); err != nil {
			return err
		}
	}
	return nil
}

// pageSize is how many histories or events are read in one round trip.
const pageSize = 256

// eachHash calls yield with the fields of each hash whose key is in a sorted set, until it returns
// false. Hashes that have expired are left out; a key that moves meanwhile may be read twice.
func eachHash(ctx context.Context, client rueidis.Client, index string, yield func(key string, fields map[string]string) bool) (more bool, err error) {
	cursor := uint64(0)
	for {
		page, err := client.Do(ctx, client.B().Zscan().Key(index).Cursor(cursor).Count(pageSize).Build()).AsScanEntry()
		if err != nil {
			return false, Explain("list histories", err)
		}
		var keys []string
		commands := make(rueidis.Commands, 0, len(page.Elements)/2)
		for i := 0; i+1 < len(page.Elements); i += 2 { // each is followed by its score
			keys = append(keys, page.Elements[i])
			commands = append(commands, client.B().Hgetall().Key(page.Elements[i]).Build())
		}
		for i, answer := range client.DoMulti(ctx, commands...) {
			fields, err := answer.AsStrMap()
			if err != nil {
				return false, Explain("read a history", err)
			}
			if len(fields) > 0 && !yield(keys[i], fields) {
				return false, nil
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return true, nil
		}
	}
}

// firstOf returns the first members of a sorted set, at most most, and their values in a hash, ""
// for none.
func firstOf(ctx context.Context, client rueidis.Client, order, hash string, most int) (ids, values []string, err error) {
	if most <= 0 {
		return nil, nil, nil
	}
	ids, err = client.Do(ctx, client.B().Zrange().Key(order).Min("0").Max(strconv.Itoa(most-1)).Build()).AsStrSlice()
	if err != nil {
		return nil, nil, Explain("read events", err)
	}
	for from := 0; from < len(ids); from += pageSize {
		page := ids[from:min(from+pageSize, len(ids))]
		answers, err := client.Do(ctx, client.B().Hmget().Key(hash).Field(page...).Build()).ToArray()
		if err != nil {
			return nil, nil, Explain("read events", err)
		}
		for i := range answers {
			text, _ := answers[i].ToString() // nil: it is gone
			values = append(values, text)
		}
	}
	return ids, values, nil
}

// removeFrom removes members from a sorted set and from a hash.
func removeFrom(ctx context.Context, client rueidis.Client, order, hash string, ids []string) error {
	for from := 0; from < len(ids); from += pageSize {
		page := ids[from:min(from+pageSize, len(ids))]
		for _, answer := range client.DoMulti(ctx, // in this order: an event without a place in the order would stay for ever
			client.B().Hdel().Key(hash).Field(page...).Build(),
			client.B().Zrem().Key(order).Member(page...).Build(),
		) {
			if err := answer.Error(); err != nil {
				return Explain("remove events", err)
			}
		}
	}
	return nil
}
