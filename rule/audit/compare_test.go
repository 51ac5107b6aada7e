package audit_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"stint/internal/testkit"
	"stint/rule"
	"stint/rule/audit"
	"stint/rule/rulefile"
)

func parse(t *testing.T, name, text string) *rule.Table {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: name, Data: []byte(text)})
	if err != nil {
		t.Fatal(err, text)
	}
	return table
}

// limit returns a descriptor with a limit; at is a key, or a key and a value.
func limit(at, words string) string {
	key, value, found := strings.Cut(at, "=")
	if found {
		value = ", value: '" + value + "'"
	}
	return fmt.Sprintf("- {key: %s%s, rate_limit: {%s}}\n", key, value, words)
}

func TestCompare(t *testing.T) {
	const ten = "requests: 10, per: 1m"
	for name, tt := range map[string]struct {
		old, now string // descriptors
		want     []string
	}{
		"nothing": {limit("u", ten), limit("u", ten), nil},
		"other words for the same": {
			limit("u", ten), limit("u", "requests_per_unit: 10, unit: minute"), nil,
		},
		"more": {limit("u", ten), limit("u", "requests: 20, per: 1m"), []string{
			"looser: u: fixed_window 10 per 1m -> fixed_window 20 per 1m (2 times the rate, 2 times at once); a key that is used up passes at once",
		}},
		"less": {limit("u", ten), limit("u", "requests: 5, per: 1m"), []string{
			"stricter: u: fixed_window 10 per 1m -> fixed_window 5 per 1m (0.5 times the rate, 0.5 times at once); a key that is used up waits at most 1m, unless stint reset frees it",
		}},
		"some of both": {limit("u", ten), limit("u", "requests: 20, per: 1h"), []string{
			"other: u: fixed_window 10 per 1m -> fixed_window 20 per 1h (0.0333 times the rate, 2 times at once); a key that is used up passes at once",
		}},
		"nothing at all any more": {limit("u", ten), limit("u", "requests: 0, per: 1m"), []string{
			"stricter: u: fixed_window 10 per 1m -> fixed_window 0 per 1m",
		}},
		"another algorithm": {limit("u", ten), limit("u", ten+", algorithm: sliding_log"), []string{
			"stricter, anew: u: fixed_window 10 per 1m -> sliding_log 10 per 1m; counted by a different algorithm: each key has up to 10 again, once",
		}},
		"a burst": {limit("u", ten+", algorithm: token_bucket"), limit("u", ten+", algorithm: token_bucket, burst: 30"), []string{
			"looser: u: token_bucket 10 per 1m burst 10 -> token_bucket 10 per 1m burst 30 (3 times at once); a key that is used up passes at once",
		}},
		"a soft part":     {limit("u", ten), limit("u", ten+", soft: 50%"), []string{"looser: u: fixed_window 10 per 1m -> fixed_window 10 per 1m soft 50% (1.5 times the rate, 1.5 times at once); a key that is used up passes at once"}},
		"unlimited":       {limit("u", ten), limit("u", "unlimited: true"), []string{"looser: u: fixed_window 10 per 1m -> unlimited"}},
		"a limit is gone": {limit("u", ten) + limit("v", ten), limit("v", ten), []string{"looser: u: no longer limited by d/u: fixed_window 10 per 1m"}},
		"a limit is new":  {limit("v", ten), limit("v", ten) + limit("u", ten), []string{"stricter: u: now limited by d/u: fixed_window 10 per 1m"}},
		"a renamed key": {limit("u", ten), limit("v", ten), []string{
			`stricter, anew: v: now limited by d/v: fixed_window 10 per 1m; the key "v" replaces "u", and counts are kept by key: they start at zero, so each key has up to 10 again, once`,
			`looser: u: no longer limited by d/u: fixed_window 10 per 1m (requests that still send "u" are not limited by it, see "v")`,
		}},
		"a renamed key above others": {
			"- {key: u, descriptors: [{key: p, value: a, rate_limit: {" + ten + "}}, {key: p, rate_limit: {requests: 5, per: 1m}}]}",
			"- {key: v, descriptors: [{key: p, value: a, rate_limit: {" + ten + "}}, {key: p, rate_limit: {requests: 4, per: 1m}}]}",
			[]string{
				`stricter, anew: v, p=a: now limited by d/v/p=a: fixed_window 10 per 1m; the key "v" replaces "u", and counts are kept by key: they start at zero, so each key has up to 10 again, once`,
				`stricter, anew: v, p: now limited by d/v/p: fixed_window 4 per 1m; the key "v" replaces "u", and counts are kept by key: they start at zero, so each key has up to 4 again, once`,
				`looser: u, p=a: no longer limited by d/u/p=a: fixed_window 10 per 1m (requests that still send "u" are not limited by it, see "v")`,
				`looser: u, p: no longer limited by d/u/p: fixed_window 5 per 1m (requests that still send "u" are not limited by it, see "v")`,
			},
		},
		"a renamed key below another": {
			"- {key: t, descriptors: " + "[{key: u, value: 'a*', rate_limit: {" + ten + "}}]}", "- {key: t, descriptors: [{key: v, value: 'a*', rate_limit: {" + ten + "}}]}",
			[]string{
				`stricter, anew: t, v=a*: now limited by d/t/v=a*: fixed_window 10 per 1m; the key "v" replaces "u", and counts are kept by key: they start at zero, so each key has up to 10 again, once`,
				`looser: t, u=a*: no longer limited by d/t/u=a*: fixed_window 10 per 1m (requests that still send "u" are not limited by it, see "v")`,
			},
		},
		"two keys are renamed": {limit("u", ten) + limit("v", "requests: 5, per: 1h"), limit("w", "requests: 5, per: 1h") + limit("x", ten), []string{
			`stricter, anew: w: now limited by d/w: fixed_window 5 per 1h; the key "w" replaces "v", and counts are kept by key: they start at zero, so each key has up to 5 again, once`,
			`stricter, anew: x: now limited by d/x: fixed_window 10 per 1m; the key "x" replaces "u", and counts are kept by key: they start at zero, so each key has up to 10 again, once`,
			`looser: u: no longer limited by d/u: fixed_window 10 per 1m (requests that still send "u" are not limited by it, see "x")`,
			`looser: v: no longer limited by d/v: fixed_window 5 per 1h (requests that still send "v" are not limited by it, see "w")`,
		}},
		"another key with other numbers": {limit("u", ten), limit("v", "requests: 5, per: 1h"), []string{
			"stricter: v: now limited by d/v: fixed_window 5 per 1h", "looser: u: no longer limited by d/u: fixed_window 10 per 1m",
		}},
		"a value of its own": {limit("u", ten), limit("u", ten) + limit("u=vip", "requests: 20, per: 1m"), []string{
			"looser, anew: u=vip: by d/u=vip, and not by d/u: fixed_window 10 per 1m -> fixed_window 20 per 1m (2 times the rate, 2 times at once); counted under a different key: each has up to 20 again, once",
		}},
		"an allow list": {limit("u", ten), limit("u", ten) + "- {key: u, value: vip}", []string{
			"looser: u=vip: no longer limited by d/u: fixed_window 10 per 1m",
		}},
		"where patterns overlap": {limit("u=a*", ten), limit("u=*b", ten), []string{
			"anew: u=*b and a*: by d/u=*b, and not by d/u=a*: counted under a different key: each has up to 10 again, once",
			"looser: u=a*: no longer limited by d/u=a*: fixed_window 10 per 1m",
			"stricter: u=*b: now limited by d/u=*b: fixed_window 10 per 1m",
		}},
		"patterns in another order": {limit("u=a*", ten) + limit("u=ab*", "requests: 1, per: 1m"), limit("u=ab*", "requests: 1, per: 1m") + limit("u=a*", ten), []string{
			"stricter, anew: u=ab*: by d/u=ab*, and not by d/u=a*: fixed_window 10 per 1m -> fixed_window 1 per 1m (0.1 times the rate, 0.1 times at once); counted under a different key: each has up to 1 again, once",
		}},
		"a name": {limit("u", ten+", name: x"), limit("u", ten+", name: y"), []string{
			"anew: u: by y, and not by x: renamed, and the name is part of the key: each has up to 10 again, once",
		}},
		"shadow off": {"- {key: u, shadow_mode: true, rate_limit: {" + ten + "}}", limit("u", ten), []string{"stricter: u: shadow_mode: true -> false"}},
		"a penalty": {limit("u", ten), limit("u", ten+", penalty: {after: 3, ladder: [1m, 1h]}"), []string{
			"stricter: u: penalty: false -> true",
		}},
		"no penalty": {limit("u", ten+", penalty: {after: 3, ladder: [1m]}"), limit("u", ten), []string{
			"looser: u: penalty: true -> false",
		}},
		"another penalty": {limit("u", ten+", penalty: {after: 3, ladder: [1m]}"), limit("u", ten+", penalty: {after: 3, ladder: [2m]}"), []string{
			"other: u: penalty after 3 denied per 1m: 1m, decay 1d -> penalty after 3 denied per 1m: 2m, decay 1d",
		}},
		"shadow on":   {limit("u", ten), "- {key: u, shadow_mode: true, rate_limit: {" + ten + "}}", []string{"looser: u: shadow_mode: false -> true"}},
		"durable on":  {limit("u", ten), limit("u", ten+", durable: true"), []string{"other: u: durable: false -> true, and what was counted before is not protected: if a crash loses it, nothing notices that"}},
		"durable off": {limit("u", ten+", durable: true"), limit("u", ten), []string{"other: u: durable: true -> false, and a crash may lose takes that were answered, and nothing notices that; after a loss that was noticed before, the rule no longer follows on_store_failure"}},
		"durable and numbers": {limit("u", ten), limit("u", "requests: 20, per: 1m, durable: true"), []string{
			"looser: u: fixed_window 10 per 1m -> fixed_window 20 per 1m (2 times the rate, 2 times at once); a key that is used up passes at once; durable: false -> true, and what was counted before is not protected: if a crash loses it, nothing notices that",
		}},
		"durable as before": {limit("u", ten+", durable: true"), limit("u", ten+", durable: true"), nil},
		"one in shadow is new": {limit("v", ten), limit("v", ten) + "- {key: u, shadow_mode: true, rate_limit: {" + ten + "}}", []string{
			"other: u: now limited by d/u: fixed_window 10 per 1m, shadow",
		}},
		"a cache": {limit("u", ten+", coordination: eventual"), limit("u", ten+", coordination: eventual, cache: 100"), []string{"other: u: keys that a node keeps: as many as fit -> 100"}},
		"another mode": {limit("u", ten), limit("u", ten+", coordination: eventual"), []string{
			"other: u: fixed_window 10 per 1m -> fixed_window 10 per 1m carrying its debt; coordination: strict -> eventual",
		}},
		"while the store is away": {limit("u", ten), limit("u", ten+", on_store_failure: deny"), []string{"stricter: u: while the store is away: allow -> deny"}},
		"a larger share": {limit("u", ten+", on_store_failure: local, local_share: 10%, nodes: 1"), limit("u", ten+", on_store_failure: local, local_share: 20%, nodes: 1"), []string{
			"looser: u: while the store is away: local, 10% over 1 nodes -> local, 20% over 1 nodes",
		}},
		"headers":  {limit("u", ten), limit("u", ten+", headers: none"), []string{"other: u: headers: [] -> [none]"}},
		"a denial": {limit("u", ten), limit("u", ten+", denial: {status: 503}"), []string{"other: u: denial: the default one -> 503"}},
		"its body": {limit("u", ten+`, denial: {json: "[1]"}`), limit("u", ten+`, denial: {json: "[2]"}`), []string{"other: u: denial: a different body"}},
		"statuses": {limit("u", ten+", count: responses, statuses: [401]"), limit("u", ten+", count: responses, statuses: [4xx]"), []string{"stricter: u: statuses: 401 -> 400-499"}},
		"all are charged": {limit("u", ten+", count: responses, statuses: [401]"), limit("u", ten), []string{
			"stricter: u: count: responses -> requests: all are charged",
		}},
		"a place": {limit("u", ten), limit("u", ten+", shard_by: u"), []string{"anew: u: shard_by: [] -> [u]: on several servers keys move and start at zero"}},
		"debts":   {limit("u", ten), limit("u", ten+", overdraw: true"), []string{"stricter: u: fixed_window 10 per 1m -> fixed_window 10 per 1m with overdraw; overdraw: false -> true"}},
		"one bucket for all": {limit("u=a*", ten), "- {key: u, value: a*, share_threshold: true, rate_limit: {" + ten + "}}", []string{
			"anew: u=a*: counted under a different key: each has up to 10 again, once",
		}},
		"one more limit on a node": {"- {key: u, rate_limit: [{" + ten + "}]}", "- {key: u, rate_limit: [{" + ten + "}, {requests: 1, per: 1s, name: x}]}", []string{
			"stricter: u: now limited by x: fixed_window 1 per 1s",
			"other: u: by d/u#1, and not by d/u: answers and metrics show a different name",
		}},
		"deeper": {"- {key: u, descriptors: [{key: p, rate_limit: {" + ten + "}}]}", "- {key: u, descriptors: [{key: p, rate_limit: {" + ten + "}}]}\n" + limit("u=vip", ten), []string{
			"stricter: u=vip: now limited by d/u=vip: fixed_window 10 per 1m",
			"looser: u=vip, p: no longer limited by d/u/p: fixed_window 10 per 1m",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := changes(audit.Compare(parse(t, "old.yaml", descriptors(tt.old)), parse(t, "new.yaml", descriptors(tt.now))))
			slices.Sort(got)
			slices.Sort(tt.want)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// changes returns the effects and texts of changes.
func changes(all []audit.Change) (texts []string) {
	for _, c := range all {
		text := fmt.Sprint(c.Effects)
		text = strings.ReplaceAll(text[1:len(text)-1], " ", ", ") + ": "
		if c.Who != "" {
			text += c.Who + ": "
		}
		texts = append(texts, text+c.Text)
	}
	return texts
}

// Changes of the settings of a whole domain are reported.
func TestCompareDomains(t *testing.T) {
	const rest = "descriptors: [{key: remote_address, rate_limit: {requests: 1, per: 1s}}, {key: u, rate_limit: {requests: 1, per: 1s}}]\n"
	const byAddress, byUser = "{actions: [{remote_address: {}}]}", "{actions: [{request_headers: {header_name: x-u, descriptor_key: u}}]}"
	section := func(elements string) string {
		return "domain: d\n" + rest + "http: {rate_limits: [" + elements + "]}\n"
	}
	for name, tt := range map[string]struct {
		old, now string
		want     []string
	}{
		"gone":   {"domain: d\n" + rest, "domain: e\n", []string{"other: a new domain, with 0 rules", "looser: the domain is gone, with 2 rules"}},
		"new":    {"domain: d\n", "domain: e\n" + rest, []string{"stricter: a new domain, with 2 rules", "other: the domain is gone, with 0 rules"}},
		"one":    {"domain: d\ndescriptors: [{key: a, rate_limit: {requests: 5, per: 1m}}]\n", "domain: e\n", []string{"other: a new domain, with 0 rules", "looser: the domain is gone, with 1 rule"}},
		"atomic": {"domain: d\n" + rest, "domain: d\natomic: false\n" + rest, []string{"other: atomic: true -> false"}},
		"lists": {
			"domain: d\nexempt: [{cidrs: [10.0.0.0/8, 192.0.2.1], name: us}]\ndeny: [{key: u, values: [a], name: bad}]\n" + rest,
			"domain: d\nexempt: [{cidrs: [192.0.2.1, 192.0.2.2], name: us}]\ndeny: [{key: u, values: [a, b], name: bad, status: 429}]\n" + rest,
			[]string{
				"looser: list us: now exempt by client's address: 192.0.2.2",
				"stricter: list us: no longer exempt by client's address: 10.0.0.0/8",
				"other: list bad: status 403 -> 429",
				"stricter: list bad: now denied by key u: b",
			},
		},
		"a list is gone": {"domain: d\ndeny: [{key: u, values: [a], name: bad}]\n" + rest, "domain: d\n" + rest, []string{"looser: list bad: no longer denied by key u: a"}},
		"described by more": {section(byAddress), section(byAddress + "," + byUser), []string{
			`other: requests are now described by {"actions":[{"request_headers":{"descriptor_key":"u","header_name":"x-u"}}]}`,
			"stricter: requests of the http section now come to u: d/u",
		}},
		"described by less": {section(byAddress + "," + byUser), section(byAddress), []string{
			`other: requests are no longer described by {"actions":[{"request_headers":{"descriptor_key":"u","header_name":"x-u"}}]}`,
			"looser: requests of the http section no longer come to u: d/u",
		}},
		"another header": {section(byAddress + "," + byUser), section(byAddress + "," + strings.Replace(byUser, "x-u", "x-user", 1)), []string{
			`other: requests are now described by {"actions":[{"request_headers":{"descriptor_key":"u","header_name":"x-user"}}]}`,
			`other: requests are no longer described by {"actions":[{"request_headers":{"descriptor_key":"u","header_name":"x-u"}}]}`,
		}},
		"in another order": {section(byAddress + "," + byUser), section(byUser + "," + byAddress), nil},
		"paths are folded": {section(byAddress), strings.Replace(section(byAddress), "http: {", "http: {path: {fold: [case]}, ", 1), []string{`other: paths are normalized differently: "" -> "case"`}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := changes(audit.Compare(parse(t, "old.yaml", tt.old), parse(t, "new.yaml", tt.now))); !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// A removed rule is reported at its old place.
func TestCompareGone(t *testing.T) {
	const rest = "descriptors: [{key: u}]\n"
	old := parse(t, "old.yaml", "domain: d\n\n\nexempt: [{cidrs: [10.0.0.0/8]}]\nhttp: {rate_limits: [{actions: [{path: {}}]}]}\n"+rest)
	changes := audit.Compare(old, parse(t, "new.yaml", "domain: d\n"+rest))
	for _, c := range changes {
		if c.File != "old.yaml" || c.Line < 4 {
			t.Errorf("%s:%d: %s", c.File, c.Line, c.Text)
		}
	}
	if len(changes) != 2 {
		t.Errorf("%d changes", len(changes))
	}
}

// Comparing a table with itself reports no change.
func TestCompareSame(t *testing.T) {
	for _, pattern := range []string{"../testdata/good/*.yaml", "../../examples/rules/*.yaml"} {
		for _, name := range testkit.GoldenInputs(t, pattern) {
			if strings.HasSuffix(name, "_test.yaml") {
				continue
			}
			a, err := rulefile.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			b, err := rulefile.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			if got := audit.Compare(a, b); len(got) != 0 {
				t.Errorf("%s: %v", name, got)
			}
		}
	}
}

// For random trees: Compare reports a change if and only if some descriptor is limited differently.
func TestCompareFindsAll(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv("STINT_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("STINT_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	values := []string{"", "a", "b", "ab", "a*", "*b", "*", "a*b"}
	var level func(depth int) string
	level = func(depth int) string {
		var b strings.Builder
		for _, key := range []string{"k", "l"} {
			for _, i := range random.Perm(len(values))[:random.IntN(4)] {
				fmt.Fprintf(&b, "{key: %s, value: '%s'", key, values[i])
				if random.IntN(3) > 0 {
					fmt.Fprintf(&b, ", rate_limit: {requests: %d, per: 1s}", 1+random.IntN(2))
				}
				if depth > 0 && random.IntN(2) == 0 {
					b.WriteString(", descriptors: [" + level(depth-1) + "]")
				}
				b.WriteString("}, ")
			}
		}
		return b.String()
	}
	probes := []string{"a", "b", "ab", "ax", "xb", "axb", "x", "aab"}
	limits := func(table *rule.Table, entries []rule.Entry) string {
		var text string
		for _, r := range table.Domain("d").Match(entries) {
			text += string(r.AppendKey(nil, entries)) + " " + r.Summary()
		}
		return text
	}
	for range 300 {
		texts := []string{"domain: d\ndescriptors: [" + level(1) + "]", "domain: d\ndescriptors: [" + level(1) + "]"}
		old, now := parse(t, "old", texts[0]), parse(t, "new", texts[1])
		differs := false
		for _, k1 := range []string{"k", "l"} {
			for _, v1 := range probes {
				first := []rule.Entry{{Key: k1, Value: v1}}
				differs = differs || limits(old, first) != limits(now, first)
				for _, k2 := range []string{"k", "l"} {
					for _, v2 := range probes {
						both := append(slices.Clone(first), rule.Entry{Key: k2, Value: v2})
						differs = differs || limits(old, both) != limits(now, both)
					}
				}
			}
		}
		if got := audit.Compare(old, now); differs != (len(got) > 0) {
			t.Fatalf("differs %t, changes %v\n%s", differs, changes(got), strings.Join(texts, "\n"))
		}
	}
}
