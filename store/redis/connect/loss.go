package connect

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	"stint"
	"stint/internal/transaction"
	"stint/store/redis/script"
)

// rulePrefix begins the fields of rules.
const rulePrefix = "ok:"

// acceptedField is the field of the last loss that was accepted for a rule; "" means all rules.
func acceptedField(rule string) string {
	if rule == "" {
		return "all"
	}
	return rulePrefix + rule
}

// LossesOf calls claim for each partition whose ledger is used, and for the first, all at once, and returns the
// losses of those whose ledgers then have one.
func (s *Side) LossesOf(ctx context.Context, ledgers []script.Ledger, claim func(ctx context.Context, partition int) error) (losses []transaction.Loss, err error) {
	found, errs := make([]transaction.Loss, len(ledgers)), make([]error, len(ledgers))
	var all sync.WaitGroup
	for i := range ledgers {
		if i > 0 && !ledgers[i].Used() {
			continue
		}
		all.Go(func() {
			if errs[i] = claim(ctx, i); errs[i] == nil && ledgers[i].Lost() > 0 {
				found[i], errs[i] = s.lossIn(ctx, i)
			}
		})
	}
	all.Wait()
	for _, one := range found {
		if one.At > 0 {
			losses = append(losses, one)
		}
	}
	return losses, errors.Join(errs...)
}

// lossIn reads the loss of the ledger of a partition, see lua/durable.lua.
func (s *Side) lossIn(ctx context.Context, partition int) (loss transaction.Loss, err error) {
	client, err := s.client(ctx)
	if err != nil {
		return loss, err
	}
	key := script.LedgerKey(s.prefixes[partition])
	fields, err := client.Do(ctx, client.B().Hgetall().Key(key).Build()).AsStrMap()
	if err != nil {
		return loss, Explain("read what was lost", err)
	}
	loss.Rules = map[string]stint.Instant{}
	for field, value := range fields {
		n, _ := strconv.ParseInt(value, 10, 64) // 0 for what is no time
		at := stint.Instant(n)
		rule, accepted := strings.CutPrefix(field, rulePrefix)
		switch {
		case field == "lost":
			loss.At = at
		case field == acceptedField(""):
			loss.All = at
		case accepted:
			loss.Rules[rule] = at
		}
	}
	return loss, nil
}

// AcceptLoss ends that takes of a durable rule, by DOMAIN/NAME, follow their failure policies after a loss; those
// of all rules for "". It reports whether something was lost.
func (s *Side) AcceptLoss(ctx context.Context, rule string) (lost bool, err error) {
	client, err := s.client(ctx)
	if err != nil {
		return false, err
	}
	for _, prefix := range s.prefixes {
		key := script.LedgerKey(prefix)
		found, err := client.Do(ctx, client.B().Hmget().Key(key).Field("lost").Build()).AsStrSlice()
		if err == nil && found[0] == "" {
			continue
		}
		if err == nil {
			err = client.Do(ctx, client.B().Hset().Key(key).FieldValue().FieldValue(acceptedField(rule), found[0]).Build()).Error()
		}
		if err != nil {
			return lost, Explain("accept what was lost", err)
		}
		lost = true
	}
	return lost, nil
}
