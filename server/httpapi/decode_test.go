package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"stint"
	"stint/internal/jsonbody"
	"stint/limiter"
	"stint/rule"
	"stint/server/httpapi/limitjson"
)

// asked is a question without its buffers, for comparisons.
type asked struct {
	Domain      string
	Descriptors []askedDescriptor
	Key         string
	Limit       *stint.Spec
	Zone        string // name of the limit's time zone
	AtMost      bool
}

// setLimit stores the specification of a limit, with only the name of its time zone.
func (a *asked) setLimit(limit *stint.Limit) {
	spec := limit.Spec()
	if spec.Zone != nil {
		a.Zone, spec.Zone = spec.Zone.String(), nil
	}
	a.Limit = &spec
}

type askedDescriptor struct {
	Entries []rule.Entry
	Cost    uint32
}

// decodeForTest decodes a copy of body.
func decodeForTest(q *question, limits *limitjson.Cache, body string) (asked, *jsonbody.Fault) {
	f := q.decode([]byte(body), limits, anyForm)
	if f != nil {
		return asked{}, f
	}
	got := asked{Domain: strings.Clone(q.req.Domain), Key: strings.Clone(q.key), AtMost: q.req.Op == stint.AskAtMost}
	for _, d := range q.req.Descriptors {
		got.Descriptors = append(got.Descriptors, askedDescriptor{append([]rule.Entry(nil), d.Entries...), d.Cost})
	}
	if q.limit != nil {
		got.setLimit(q.limit)
	}
	return got, nil
}

func newLimitCache() *limitjson.Cache {
	c := new(limitjson.Cache)
	c.Init()
	return c
}

// goodBodies are valid bodies with their decoded form.
var goodBodies = []struct {
	name, body string
	want       asked
}{
	{
		"rules", `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"42"}]}]}`,
		asked{Domain: "api", Descriptors: one(1, "user", "42")},
	},
	{
		"white space, any order",
		"\r\n\t {\"descriptors\" : [ { \"cost\" : 0 , \"entries\" : [ { \"value\" : \"42\" , \"key\" : \"user\" } ] } ] , \"domain\" : \"api\" } \n",
		asked{Domain: "api", Descriptors: one(0, "user", "42")},
	},
	{
		"a cost for all", `{"domain":"a","descriptors":[{"entries":[{"key":"k","value":""}],"cost":4294967295},{"entries":[{"key":"k","value":"v"}]}],"cost":7}`,
		asked{Domain: "a", Descriptors: append(one(4294967295, "k", ""), one(7, "k", "v")...)},
	},
	{
		"numbers in other forms",
		`{"domain":"a","descriptors":[` + costing("1e3") + "," + costing("12.50e1") + "," + costing("-0.0E-99999999999") + "," + costing("42949672950000e-4") + "," + costing("7.000") + `]}`,
		asked{Domain: "a", Descriptors: slices.Concat(one(1000, "k", "v"), one(125, "k", "v"), one(0, "k", "v"), one(4294967295, "k", "v"), one(7, "k", "v"))},
	},
	{
		"escapes", `{"domai\u006e":"a\"\\\/\b\f\n\r\t","descriptors":[{"entries":[{"key":"\u00e9\uD83D\uDE00","value":"é😀\u0000"}]}]}`,
		asked{Domain: "a\"\\/\b\f\n\r\t", Descriptors: one(1, "é😀", "é😀\x00")},
	},
	{
		"several entries", `{"domain":"a","descriptors":[{"entries":[{"key":"k","value":"v"},{"key":"k","value":"w"}]}]}`,
		asked{Domain: "a", Descriptors: one(1, "k", "v", "k", "w")},
	},
	{
		"a limit", `{"key":"user:42","limit":{"algorithm":"token_bucket","requests":5,"per":"1s","burst":5},"cost":2}`,
		asked{Key: "user:42", Descriptors: one(2), Limit: specOf(`token_bucket 5 1s burst 5`)},
	},
	{
		"at most", `{"at_most":true,"domain":"a","descriptors":[{"entries":[{"key":"k","value":"v"}],"cost":9},{"entries":[{"key":"k","value":"w"}]}],"cost":9}`,
		asked{Domain: "a", Descriptors: append(one(9, "k", "v"), one(9, "k", "w")...), AtMost: true},
	},
	{
		"not at most", `{"at_most":false,"domain":"a","descriptors":[{"entries":[{"key":"k","value":"v"}],"cost":0}]}`,
		asked{Domain: "a", Descriptors: one(0, "k", "v")},
	},
	{
		"a limit, at most", `{"key":"k","limit":{"requests":5,"per":"24h"},"cost":20,"at_most":true}`,
		asked{Key: "k", Descriptors: one(20), Limit: specOf(`fixed_window 5 24h`), AtMost: true},
	},
	{
		"a limit, silent on the algorithm", `{"limit":{"requests_per_unit":5,"unit":"DAY"},"key":"k"}`,
		asked{Key: "k", Descriptors: one(1), Limit: specOf(`fixed_window 5 24h`)},
	},
	{
		"days", `{"key":"k","limit":{"requests":5,"per":"1d12h"}}`,
		asked{Key: "k", Descriptors: one(1), Limit: specOf(`fixed_window 5 36h`)},
	},
	{
		"a rate that is rounded", `{"key":"k","limit":{"algorithm":"token_bucket","requests":600000,"per":"1s"}}`,
		asked{Key: "k", Descriptors: one(1), Limit: specOf(`token_bucket 600000 1s burst 600000`)},
	},
	{
		"unlimited", `{"key":"k","limit":{"unlimited":true}}`,
		asked{Key: "k", Descriptors: one(1), Limit: &stint.Spec{Algorithm: stint.Unlimited, RoundRate: true}},
	},
}

// costing returns a descriptor with that cost.
func costing(cost string) string {
	return `{"entries":[{"key":"k","value":"v"}],"cost":` + cost + `}`
}

// one returns a descriptor with these keys and values.
func one(cost uint32, pairs ...string) []askedDescriptor {
	d := askedDescriptor{Cost: cost}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, rule.Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return []askedDescriptor{d}
}

// specOf parses "ALGORITHM REQUESTS PER [burst N]".
func specOf(text string) *stint.Spec {
	words := strings.Fields(text)
	spec := stint.Spec{RoundRate: true}
	spec.Algorithm, _ = stint.ParseAlgorithm(words[0])
	requests, _ := strconv.Atoi(words[1])
	spec.Requests = uint32(requests)
	spec.Per, _ = rule.ParseDuration(words[2])
	if len(words) > 4 {
		burst, _ := strconv.Atoi(words[4])
		spec.Burst = uint32(burst)
	}
	return &spec
}

// All bodies are decoded into the same question, which must not keep anything of an earlier body.
func TestDecode(t *testing.T) {
	var q question
	limits := newLimitCache()
	for range 2 { // the second time the limits are cached
		for _, test := range goodBodies {
			t.Run(test.name, func(t *testing.T) {
				got, f := decodeForTest(&q, limits, test.body)
				if f != nil {
					t.Fatalf("refused: %s", f.Message())
				}
				if !reflect.DeepEqual(got, test.want) {
					t.Errorf("read %+v, want %+v", got, test.want)
				}
			})
		}
	}
}

const (
	byRules = `{"domain":"a","descriptors":[{"entries":[{"key":"k","value":"v"}],"cost":%s}]}`
	byLimit = `{"key":"k","limit":%s}`
)

// badBodies are invalid bodies with the complete message.
var badBodies = []struct{ name, body, want string }{
	{"nothing", ``, `the body ends where an object belongs; send the whole of the JSON`},
	{"not JSON", `domain=api`, `'d' where an object belongs; send JSON as RFC 8259 has it`},
	{"an array", `[]`, `an array where an object belongs; give an object, or leave it out where it may be left out`},
	{"null", `null`, `null where an object belongs; give an object, or leave it out where it may be left out`},
	{"a byte order mark", "\ufeff{}", `'\ufeff' where an object belongs; send JSON as RFC 8259 has it`},
	{"empty object", `{}`, `neither rules nor a limit to decide by; give domain and descriptors, or key and limit`},
	{"cost alone", `{"cost":1}`, `neither rules nor a limit to decide by; give domain and descriptors, or key and limit`},
	{"both forms", `{"domain":"a","key":"k"}`, `a request by rules and one with its own limit at once; give domain and descriptors, or key and limit`},
	{"trailing garbage", fmt.Sprintf(byRules, "1") + "}", `something follows the JSON object; send one object and nothing after it`},
	{"two objects", fmt.Sprintf(byRules, "1") + "{}", `something follows the JSON object; send one object and nothing after it`},
	{"cut off", `{"domain":"a`, `domain: the body ends where the end of a string belongs; send the whole of the JSON`},
	{"trailing comma", `{"domain":"a",}`, `'}' where a field in double quotes belongs; send JSON as RFC 8259 has it`},
	{"no colon", `{"domain" "a"}`, `domain: '"' where a colon after the name of a field belongs; send JSON as RFC 8259 has it`},
	{"no comma", `{"domain":"a" "descriptors":[]}`, `'"' where a comma or '}' belongs; send JSON as RFC 8259 has it`},
	{"unknown field", `{"domain":"a","descriptor":[]}`, `unknown field "descriptor"; known here are domain, descriptors, key, limit, cost, at_most, checks, reserve`},
	{"another case", `{"Domain":"a"}`, `unknown field "Domain"; known here are domain, descriptors, key, limit, cost, at_most, checks, reserve`},
	{"long unknown field", `{"` + strings.Repeat("x", 99) + `":1}`, `unknown field "` + strings.Repeat("x", 60) + `..."; known here are domain, descriptors, key, limit, cost, at_most, checks, reserve`},
	{"field twice", `{"domain":"a","domain":"b"}`, `domain: given twice; give it once`},
	{"field twice by an escape", `{"cost":1,"c\u006fst":1}`, `cost: given twice; give it once`},

	{"no domain", `{"descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`, `domain: missing; name a domain of the rule file`},
	{"empty domain", `{"domain":"","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`, `domain: empty; name a domain of the rule file`},
	{"domain of another type", `{"domain":1}`, `domain: a number where a string belongs; give a string, or leave it out where it may be left out`},
	{"no descriptors", `{"domain":"a"}`, `descriptors: missing; describe the request by at least one descriptor`},
	{"empty descriptors", `{"domain":"a","descriptors":[]}`, `descriptors: empty; describe the request by at least one descriptor`},
	{"descriptors null", `{"domain":"a","descriptors":null}`, `descriptors: null where an array belongs; give an array, or leave it out where it may be left out`},
	{"too many descriptors", `{"domain":"a","descriptors":[` + strings.Repeat(`{"entries":[{"key":"k","value":"v"}]},`, 1001) + `{}]}`, `descriptors[1000]: more than 1000 descriptors; send several requests`},
	{"no entries", `{"domain":"a","descriptors":[{"cost":1}]}`, `descriptors[0].entries: missing; give at least one key and value`},
	{"empty entries", `{"domain":"a","descriptors":[{"entries":[]}]}`, `descriptors[0].entries: empty; give at least one key and value`},
	{"unknown field of a descriptor", `{"domain":"a","descriptors":[{"entry":[]}]}`, `descriptors[0]: unknown field "entry"; known here are entries, cost`},
	{"no key", `{"domain":"a","descriptors":[{"entries":[{"value":"v"}]}]}`, `descriptors[0].entries[0].key: missing; name what the value is, such as user`},
	{"empty key", `{"domain":"a","descriptors":[{"entries":[{"key":"","value":"v"}]}]}`, `descriptors[0].entries[0].key: empty; name what the value is, such as user`},
	{"no value", `{"domain":"a","descriptors":[{"entries":[{"key":"k","value":"v"},{"key":"k"}]}]}`, `descriptors[0].entries[1].value: missing; give the value, "" where there is none`},
	{"a number as value", `{"domain":"a","descriptors":[{"entries":[{"key":"k","value":42}]}]}`, `descriptors[0].entries[0].value: a number where a string belongs; give a string, or leave it out where it may be left out`},

	{"negative cost", fmt.Sprintf(byRules, "-1"), badCost("-1")},
	{"fractional cost", fmt.Sprintf(byRules, "1.5"), badCost("1.5")},
	{"a fraction below what a float holds", fmt.Sprintf(byRules, "1.00000000000000000001"), badCost("1.00000000000000000001")},
	{"a small exponent", fmt.Sprintf(byRules, "15e-1"), badCost("15e-1")},
	{"a large exponent", fmt.Sprintf(byRules, "1e10"), badCost("1e10")},
	{"a huge exponent", fmt.Sprintf(byRules, "1e99999999999999999999"), badCost("1e99999999999999999999")},
	{"a tiny exponent", fmt.Sprintf(byRules, "1e-99999999999999999999"), badCost("1e-99999999999999999999")},
	{"no exponent", fmt.Sprintf(byRules, "1e"), badCost("1e")},
	{"no digits before the point", fmt.Sprintf(byRules, "-.5"), badCost("-.5")},
	{"no digits after the point", fmt.Sprintf(byRules, "1."), badCost("1.")},
	{"two signs", fmt.Sprintf(byRules, "1e+-3"), badCost("1e+-3")},
	{"a leading zero and an exponent", fmt.Sprintf(byRules, "01e1"), badCost("01e1")},
	{"leading zero", fmt.Sprintf(byRules, "01"), badCost("01")},
	{"2^32", fmt.Sprintf(byRules, "4294967296"), badCost("4294967296")},
	{"2^64+1", fmt.Sprintf(byRules, "18446744073709551617"), badCost("18446744073709551617")},
	{"100 digits", fmt.Sprintf(byRules, strings.Repeat("9", 100)), badCost(strings.Repeat("9", 30))},
	{"at most 0", `{"domain":"a","descriptors":[{"entries":[{"key":"k","value":"v"}],"cost":0}],"at_most":true}`, `at_most: given with cost 0; give the most units to take, or leave out at_most to look without taking`},
	{"at most 0 of a limit", `{"key":"k","limit":{"requests":5,"per":"1s"},"cost":0,"at_most":true}`, `at_most: given with cost 0; give the most units to take, or leave out at_most to look without taking`},
	{"at most of several costs", `{"domain":"a","descriptors":[{"entries":[{"key":"k","value":"v"}],"cost":2},{"entries":[{"key":"k","value":"w"}]}],"at_most":true}`, `at_most: given with several costs; give all descriptors the same cost; they are charged the same number of units`},
	{"at most as a number", `{"domain":"a","at_most":1}`, `at_most: a number where true or false belongs; give true or false, or leave it out where it may be left out`},
	{"cost as string", fmt.Sprintf(byRules, `"1"`), `descriptors[0].cost: a string where a number belongs; give a number, or leave it out where it may be left out`},
	{"cost null", fmt.Sprintf(byRules, `null`), `descriptors[0].cost: null where a number belongs; give a number, or leave it out where it may be left out`},
	{"cost NaN", fmt.Sprintf(byRules, `NaN`), `descriptors[0].cost: 'N' where a number belongs; send JSON as RFC 8259 has it`},

	{"invalid UTF-8", "{\"domain\":\"\xff\"}", `domain: a string is not valid UTF-8; encode other bytes, for example in base64`},
	{"invalid UTF-8 after an escape", "{\"domain\":\"\\n\xc3\"}", `domain: a string is not valid UTF-8; encode other bytes, for example in base64`},
	{"half a pair", `{"domain":"\ud83d"}`, `domain: half of a surrogate pair in a string; write both halves, or the character itself`},
	{"second half first", `{"domain":"\ude00\ud83d"}`, `domain: half of a surrogate pair in a string; write both halves, or the character itself`},
	{"half and no half", `{"domain":"\ud83d\u0041"}`, `domain: half of a surrogate pair in a string; write both halves, or the character itself`},
	{"bad hex", `{"domain":"\u00g0"}`, `domain: \u without four hex digits; write it such as \u00e9`},
	{"unknown escape", `{"domain":"\x41"}`, `domain: unknown escape in a string; JSON knows \" \\ \/ \b \f \n \r \t and \u with four hex digits`},
	{"a raw line break", "{\"domain\":\"a\nb\"}", `domain: a control character in a string; write it as an escape, such as \n or \u0000`},

	{"no key beside a limit", `{"limit":{"requests":1,"per":"1s"}}`, `key: missing; give the key of the bucket, such as user:42`},
	{"empty key beside a limit", `{"key":"","limit":{"requests":1,"per":"1s"}}`, `key: empty; give the key of the bucket, such as user:42; unrelated clients would share an empty key`},
	{"no limit", `{"key":"k"}`, `limit: missing; give one such as {"requests": 5, "per": "1s"}, or ask by domain and descriptors`},
	{"limit as text", `{"key":"k","limit":"5/s"}`, `limit: a string where an object belongs; give an object, or leave it out where it may be left out`},
	{"empty limit", fmt.Sprintf(byLimit, `{}`), `limit.requests: missing; give the number that may pass in the period; 0 denies all`},
	{"no period", fmt.Sprintf(byLimit, `{"requests":5}`), `limit.per: missing; give a duration such as "100ms", "1s", "15m", "1h" or "1d"`},
	{"unknown word", fmt.Sprintf(byLimit, `{"rate":5}`), `limit: unknown field "rate"; known here are ` + strings.Join(limitjson.Words, ", ")},
	{"an object in a limit", fmt.Sprintf(byLimit, `{"requests":{}}`), `limit.requests: an object where a number belongs; give a number, or leave it out where it may be left out`},
	{"unknown algorithm", fmt.Sprintf(byLimit, `{"algorithm":"gcra"}`), `limit.algorithm: unknown algorithm "gcra"; known are token_bucket, leaky_bucket, fixed_window, sliding_log, sliding_window`},
	{"unlimited as algorithm", fmt.Sprintf(byLimit, `{"algorithm":"unlimited"}`), `limit.algorithm: unknown algorithm "unlimited"; known are token_bucket, leaky_bucket, fixed_window, sliding_log, sliding_window`},
	{"burst 0", fmt.Sprintf(byLimit, `{"algorithm":"token_bucket","requests":5,"per":"1s","burst":0}`), `limit.burst: 0 lets nothing through, ever; give at least 1, or leave it out for as many as requests`},
	{"burst of a window", fmt.Sprintf(byLimit, `{"requests":5,"per":"1s","burst":0}`), `limit.burst: not a word of fixed_window; it belongs to token_bucket and leaky_bucket; leave it out or change the algorithm`},
	{"two words for requests", fmt.Sprintf(byLimit, `{"requests":5,"requests_per_unit":5,"per":"1s"}`), `limit.requests_per_unit: is another word for requests, which is given too; give one of them`},
	{"too many for a bucket", fmt.Sprintf(byLimit, `{"algorithm":"token_bucket","requests_per_unit":4294967295,"unit":"second"}`), `limit.requests_per_unit: 4294967295 per 1s is more than 10^6 per second; lower the rate, or use fixed_window or sliding_window, which have no such bound`},
	{"two words for the period", fmt.Sprintf(byLimit, `{"requests":5,"unit":"day","per":"1s"}`), `limit.unit: is another word for per, which is given too; give one of them`},
	{"unknown unit", fmt.Sprintf(byLimit, `{"requests":5,"unit":"fortnight"}`), `limit.unit: unknown unit "fortnight"; use second, minute, hour, day, week, month or year, or give per`},
	{"a period without a unit", fmt.Sprintf(byLimit, `{"requests":5,"per":"60"}`), `limit.per: "60": a number without a unit; give a duration such as "100ms", "1s", "15m", "1h" or "1d"`},
	{"a period of nothing", fmt.Sprintf(byLimit, `{"requests":5,"per":"0s"}`), `limit.per: "0s" is not above zero; give a duration such as "100ms", "1s", "15m", "1h" or "1d"`},
	{"a short period", fmt.Sprintf(byLimit, `{"requests":5,"per":"1ms"}`), `limit.per: 1ms is outside 10ms to 366d; give a period such as 1s, 15m or 1d`},
	{"no blocks", fmt.Sprintf(byLimit, `{"algorithm":"sliding_window","requests":5,"per":"1s","blocks":0}`), `limit.blocks: 0 blocks; leave it out for 1`},
	{"unknown start", fmt.Sprintf(byLimit, `{"algorithm":"sliding_window","requests":5,"per":"1s","start":"full"}`), `limit.start: "full" is not known here; give unused or used_up`},
	{"start of a bucket", fmt.Sprintf(byLimit, `{"algorithm":"token_bucket","requests":5,"per":"1s","start":"unused"}`), `limit.start: not a word of token_bucket; it belongs to sliding_window; leave it out or change the algorithm`},
	{"huge blocks", fmt.Sprintf(byLimit, `{"algorithm":"sliding_window","requests":5,"per":"1s","blocks":4294967295}`), `limit.blocks: 2147483647 is outside 1 to 4096; 10 to 60 blocks are enough for most`},
	{"another refill", fmt.Sprintf(byLimit, `{"algorithm":"token_bucket","requests":5,"per":"1s","refill":"slow"}`), `limit.refill: "slow" is not known here; give steady or step`},
	{"unlimited with more", fmt.Sprintf(byLimit, `{"unlimited":true,"per":"1s"}`), `limit.unlimited: is set beside other words; give it alone, or leave it out`},
	{"a zone without a calendar", fmt.Sprintf(byLimit, `{"requests":5,"per":"1d","time_zone":"UTC"}`), `limit.time_zone: is set without a calendar period; use it with unit: day, week, month or year`},
	{"unknown zone", fmt.Sprintf(byLimit, `{"requests":5,"unit":"day","time_zone":"../etc/passwd"}`), `limit.time_zone: unknown time zone "../etc/passwd"; use a name of the IANA database, such as Europe/Madrid or UTC`},
}

func badCost(shown string) string {
	return "descriptors[0].cost: " + shown + " is not a whole number from 0 to 4294967295; " + costHint
}

func TestRefuse(t *testing.T) {
	var q question
	limits := newLimitCache()
	for _, test := range badBodies {
		t.Run(test.name, func(t *testing.T) {
			_, f := decodeForTest(&q, limits, test.body)
			if f == nil {
				t.Fatal("accepted")
			}
			if f.Status != 400 || f.Code != jsonbody.BadRequest {
				t.Errorf("answered %d %s", f.Status, f.Code)
			}
			if got := f.Message(); got != test.want {
				t.Errorf("said\n%s\nwant\n%s", got, test.want)
			}
			if f.Seen > len(test.body)+1 {
				t.Errorf("at byte %d of %d", f.Seen-1, len(test.body))
			}
		})
	}
}

// FuzzDecode compares the decoder with encoding/json: both return the same values, or both refuse.
func FuzzDecode(f *testing.F) {
	for _, test := range goodBodies {
		f.Add([]byte(test.body))
	}
	for _, test := range badBodies {
		if len(test.body) < 1000 { // minimizing long inputs takes long
			f.Add([]byte(test.body))
		}
	}
	var q question
	limits := newLimitCache()
	f.Fuzz(func(t *testing.T, body []byte) {
		if hugeExponent.Match(body) {
			return // math/big would expand such exponents
		}
		want, err := decodeByTheBook(body)
		for range 2 {
			got, fault := decodeForTest(&q, limits, string(body))
			switch {
			case (fault == nil) != (err == nil):
				t.Fatalf("%q: we say %+v, encoding/json %v", body, fault, err)
			case fault != nil && (!utf8.ValidString(fault.Message()) || !json.Valid(fault.Append(nil))):
				t.Fatalf("%q: envelope %q", body, fault.Append(nil))
			case err == nil && !reflect.DeepEqual(got, want):
				t.Fatalf("%q: we read %+v, encoding/json %+v", body, got, want)
			}
		}
	})
}

var hugeExponent = regexp.MustCompile(`[eE][+-]?[0-9]{4}`)

// bookUint is a whole number in any JSON notation.
type bookUint uint32

// UnmarshalJSON parses it exactly.
func (n *bookUint) UnmarshalJSON(text []byte) error {
	r, ok := new(big.Rat).SetString(string(text))
	if !ok || !r.IsInt() || !r.Num().IsUint64() || r.Num().Uint64() > math.MaxUint32 {
		return fmt.Errorf("%s is not a whole number", text)
	}
	*n = bookUint(r.Num().Uint64())
	return nil
}

// The structure of a body for encoding/json. A nil pointer is a missing member.
type (
	bookCheck struct {
		Domain      *string           `json:"domain"`
		Descriptors *[]bookDescriptor `json:"descriptors"`
		Key         *string           `json:"key"`
		Limit       *json.RawMessage  `json:"limit"`
		Cost        *bookUint         `json:"cost"`
		AtMost      bool              `json:"at_most"`
	}
	bookDescriptor struct {
		Entries *[]bookEntry `json:"entries"`
		Cost    *bookUint    `json:"cost"`
	}
	bookEntry struct {
		Key   *string `json:"key"`
		Value *string `json:"value"`
	}
)

// decodeByTheBook decodes body with encoding/json. A walk over the tokens refuses what
// encoding/json allows but the protocol does not: null, repeated names, names in another case,
// invalid UTF-8. readLimit decodes a limit.
func decodeByTheBook(body []byte) (got asked, err error) {
	if !utf8.Valid(body) || !json.Valid(body) {
		return asked{}, fmt.Errorf("not JSON")
	}
	if err := walk(body); err != nil {
		return asked{}, err
	}
	var b bookCheck
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&b); err != nil {
		return asked{}, err
	}
	byRules, inline := b.Domain != nil || b.Descriptors != nil, b.Key != nil || b.Limit != nil
	if byRules == inline {
		return asked{}, fmt.Errorf("both forms or none")
	}
	cost := uint32(1)
	if b.Cost != nil {
		cost = uint32(*b.Cost)
	}
	if b.AtMost {
		defer func() {
			got.AtMost = true
			for _, d := range got.Descriptors {
				if d.Cost == 0 || d.Cost != got.Descriptors[0].Cost {
					got, err = asked{}, fmt.Errorf("not one cost")
					return
				}
			}
		}()
	}
	if inline {
		return bookInline(b, cost)
	}
	if b.Domain == nil || *b.Domain == "" || b.Descriptors == nil || len(*b.Descriptors) == 0 || len(*b.Descriptors) > limiter.MaxDescriptors || len(*b.Domain) > limiter.MaxKey {
		return asked{}, fmt.Errorf("incomplete")
	}
	got = asked{Domain: *b.Domain}
	for _, d := range *b.Descriptors {
		one := askedDescriptor{Cost: cost}
		if d.Cost != nil {
			one.Cost = uint32(*d.Cost)
		}
		if d.Entries == nil || len(*d.Entries) == 0 || len(*d.Entries) > limiter.MaxEntries {
			return asked{}, fmt.Errorf("no entries")
		}
		for _, e := range *d.Entries {
			if e.Key == nil || *e.Key == "" || e.Value == nil || len(*e.Key) > limiter.MaxKey || len(*e.Value) > limiter.MaxValue {
				return asked{}, fmt.Errorf("no entry")
			}
			one.Entries = append(one.Entries, rule.Entry{Key: *e.Key, Value: *e.Value})
		}
		got.Descriptors = append(got.Descriptors, one)
	}
	return got, nil
}

func bookInline(b bookCheck, cost uint32) (asked, error) {
	if b.Key == nil || *b.Key == "" || len(*b.Key) > limiter.MaxValue || b.Limit == nil {
		return asked{}, fmt.Errorf("incomplete")
	}
	limit, f := limitjson.ReadLimit(&jsonbody.Scanner{Data: bytes.Clone(*b.Limit)})
	if f != nil {
		return asked{}, fmt.Errorf("%s", f.Message())
	}
	got := asked{Key: *b.Key, Descriptors: []askedDescriptor{{Cost: cost}}}
	got.setLimit(limit)
	return got, nil
}

// walk refuses what only encoding/json allows.
func walk(body []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var names []map[string]bool // names of each open object; nil for an array
	inName := false
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		object := len(names) > 0 && names[len(names)-1] != nil
		switch token := token.(type) {
		case nil:
			return fmt.Errorf("null")
		case json.Delim:
			switch token {
			case '{', '[':
				names = append(names, nil)
				if token == '{' {
					names[len(names)-1] = map[string]bool{}
				}
				inName = token == '{'
				continue
			default:
				names = names[:len(names)-1]
			}
			inName = len(names) > 0 && names[len(names)-1] != nil
			continue
		case string:
			if strings.ContainsRune(token, utf8.RuneError) && !bytes.ContainsRune(body, utf8.RuneError) &&
				!bytes.Contains(bytes.ToLower(body), []byte(`\ufffd`)) {
				return fmt.Errorf("half a surrogate pair")
			}
			if inName {
				// U+017F folds to s.
				if names[len(names)-1][token] || token != strings.ToLower(token) || strings.ContainsRune(token, 0x17f) {
					return fmt.Errorf("name %q twice or in another case", token)
				}
				names[len(names)-1][token] = true
				inName = false
				continue
			}
		}
		inName = object
	}
	return nil
}
