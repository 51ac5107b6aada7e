package audit_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/text"
	"stint/internal/transaction"
	"stint/rule/audit"
)

// A change of numbers states how long a used-up key waits.
func TestCompareWaits(t *testing.T) {
	const reset = ", unless stint reset frees it"
	for name, tt := range map[string]struct{ old, now, want string }{
		"window, sooner by the new numbers":          {"requests: 10, per: 1d", "requests: 10, per: 1s", "waits at most 1s" + reset},
		"window, sooner by the old numbers":          {"requests: 1000, per: 1m", "requests: 10, per: 1s", "waits at most 1m" + reset},
		"window, one more":                           {"requests: 10, per: 1d", "requests: 11, per: 1d", "passes at once"},
		"window, one less":                           {"requests: 10, per: 1d", "requests: 9, per: 1d", "waits at most 1d" + reset},
		"window, many of a day":                      {"requests: 100000, per: 1d", "requests: 1, per: 1s", "waits at most 1d" + reset},
		"window, lengths that do not divide":         {"requests: 3, per: 7s", "requests: 1, per: 3s", "waits at most 7s" + reset},
		"window, a month with a day of 25 hours":     {"requests: 10, unit: month, time_zone: Europe/Berlin", "requests: 9, unit: month, time_zone: Europe/Berlin", "waits at most 745h" + reset},
		"bucket, sooner by the new numbers":          {"requests: 10, per: 1d, algorithm: token_bucket", "requests: 10, per: 1s, algorithm: token_bucket", "waits at most 100ms" + reset},
		"bucket, used beyond what the new holds":     {"requests: 1000, per: 1m, algorithm: token_bucket", "requests: 10, per: 1s, algorithm: token_bucket", "waits at most 59.46s" + reset},
		"bucket, one more":                           {"requests: 10, per: 1d, algorithm: token_bucket", "requests: 11, per: 1d, algorithm: token_bucket", "passes at once"},
		"bucket, many of a day":                      {"requests: 100000, per: 1d, algorithm: token_bucket", "requests: 1, per: 1s, algorithm: token_bucket", "waits at most 1d" + reset},
		"bucket, in steps":                           {"requests: 10, per: 1d, algorithm: token_bucket, refill: step", "requests: 5, per: 1d, algorithm: token_bucket, refill: step", "waits at most 1d" + reset},
		"queue":                                      {"requests: 10, per: 1d, algorithm: leaky_bucket, burst: 9", "requests: 10, per: 1s, algorithm: leaky_bucket, burst: 9", "waits at most 100ms" + reset},
		"log":                                        {"requests: 10, per: 1d, algorithm: sliding_log", "requests: 10, per: 1s, algorithm: sliding_log", "waits at most 1s" + reset},
		"sliding window":                             {"requests: 10, per: 1d, algorithm: sliding_window", "requests: 10, per: 1s, algorithm: sliding_window", "waits at most 1.001s" + reset},
		"sliding window whose untouched key is full": {"requests: 10, per: 1d, algorithm: sliding_window, start: used_up", "requests: 10, per: 1s, algorithm: sliding_window, start: used_up", "waits at most 1.001s" + reset},
	} {
		t.Run(name, func(t *testing.T) {
			all := audit.Compare(parse(t, "old.yaml", descriptors(limit("u", tt.old))), parse(t, "new.yaml", descriptors(limit("u", tt.now))))
			got := changes(all)
			if len(got) != 1 || !strings.HasSuffix(got[0], "; a key that is used up "+tt.want) {
				t.Fatalf("got\n%s\nwant ... a key that is used up %s", strings.Join(got, "\n"), tt.want)
			}
			if ms := all[0].WaitMS; ms == nil || time.Duration(*ms)*time.Millisecond != waits(t, tt.want) {
				t.Errorf("wait of %v ms, want %s", ms, tt.want)
			}
		})
	}
	for name, tt := range map[string]struct{ old, now string }{
		"no numbers change":      {"requests: 10, per: 1m", "requests: 10, per: 1m, overdraw: true"},
		"how nodes agree":        {"requests: 10, per: 1m", "requests: 10, per: 1m, coordination: eventual"},
		"another algorithm":      {"requests: 10, per: 1m", "requests: 9, per: 1m, algorithm: sliding_log"},
		"another key":            {"requests: 10, per: 1m", "requests: 9, per: 1m, name: x"},
		"nothing passes anymore": {"requests: 10, per: 1m", "requests: 0, per: 1m"},
		"nothing passed":         {"requests: 0, per: 1m", "requests: 10, per: 1m"},
		"unlimited":              {"requests: 10, per: 1m", "unlimited: true"},
	} {
		t.Run(name, func(t *testing.T) {
			all := audit.Compare(parse(t, "old.yaml", descriptors(limit("u", tt.old))), parse(t, "new.yaml", descriptors(limit("u", tt.now))))
			got := changes(all)
			if len(got) != 1 || strings.Contains(got[0], "used up") || all[0].WaitMS != nil {
				t.Errorf("got\n%s", strings.Join(got, "\n"))
			}
		})
	}
}

// waits returns the waiting time in the text of a change, 0 for none.
func waits(t *testing.T, text string) time.Duration {
	_, text, waits := strings.Cut(text, "waits at most ")
	if !waits {
		return 0
	}
	text, _, _ = strings.Cut(text, ",")
	wait, err := time.ParseDuration(strings.NewReplacer("1d", "24h", "2d", "48h").Replace(text))
	if err != nil {
		t.Fatal(err)
	}
	return wait
}

// No key waits longer than the change states, whenever it was used up and the numbers changed.
func TestCompareWaitsEnough(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pers := []time.Duration{7 * time.Second, 10 * time.Second, time.Minute, time.Hour, 24 * time.Hour}
	algorithms := []string{"fixed_window", "token_bucket", "leaky_bucket", "sliding_log", "sliding_window"}
	for range 300 {
		word := algorithms[random.IntN(len(algorithms))]
		algorithm, err := stint.ParseAlgorithm(word)
		if err != nil {
			t.Fatal(err)
		}
		spec := func() stint.Spec {
			return stint.Spec{Algorithm: algorithm, Requests: 1 + random.Uint32N(30), Per: pers[random.IntN(len(pers))], RoundRate: true}
		}
		was, is := spec(), spec()
		if was == is {
			continue
		}
		words := func(s stint.Spec) string {
			return "requests: " + strconv.Itoa(int(s.Requests)) + ", per: " + text.FormatDuration(s.Per) + ", algorithm: " + word
		}
		got := strings.Join(changes(audit.Compare(parse(t, "old.yaml", descriptors(limit("u", words(was)))), parse(t, "new.yaml", descriptors(limit("u", words(is)))))), "\n")
		said := waits(t, got)
		old, now := stint.MustLimit(was), stint.MustLimit(is)
		for range 20 {
			at := stint.At(time.Date(2026, 1, 1, 0, 0, random.IntN(30*86400), 1000*random.IntN(1e6), time.UTC))
			var r transaction.Record
			r.Take(old, at, uint64(old.Capacity()))
			at = at.Add(time.Duration(random.Int64N(int64(was.Per))))
			if d := r.Test(now, at, 1); !d.Allowed && d.RetryAfter > said {
				t.Fatalf("%s\nwaits %v", got, d.RetryAfter)
			}
		}
	}
}
