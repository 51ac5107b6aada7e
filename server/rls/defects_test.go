package rls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"stint"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
)

// These tests check that we avoid the known defects of envoyproxy/ratelimit. The numbers are those
// in docs/rls.md.

// deskOf is newCaseDesk for a single file.
func deskOf(t *testing.T, o Options, file string) *desk {
	t.Helper()
	return newCaseDesk(t, []string{file}, o)
}

// expect sends a request and compares the answer, both in the notation of the cases.
func (d *desk) expect(t *testing.T, question, want string) {
	t.Helper()
	d.check(t, question+" => "+want, (*desk).askBytes)
}

const plain = `
domain: api
descriptors:
  - key: a
    rate_limit: {unit: hour, requests_per_unit: 3}
`

// D1: a limit with an unknown unit crashed the process.
func TestDefectD1UnknownUnitOfOverride(t *testing.T) {
	d := deskOf(t, Options{}, plain)
	for _, number := range []string{"0", "7", "8", "-1", "2147483647"} {
		req := parseRequest(t, "api: a=1; a=1 limit=5/"+number)
		_, failure := d.ask(t.Context(), t, req)
		if failure == nil || failure.Code != invalidArgument || !strings.Contains(failure.Message, "unit "+number) {
			t.Errorf("unit %s: %v", number, failure)
		}
	}
	d.expect(t, "api: a=1", "OK: OK 3/HOUR left=2 reset=1770")
}

// D2: hits of 2^63 and more made a counter negative and unusable.
func TestDefectD2HugeHits(t *testing.T) {
	d := deskOf(t, Options{}, plain)
	for _, hits := range []uint64{math.MaxUint32 + 1, 1 << 62, 1 << 63, math.MaxUint64} {
		for _, back := range []bool{false, true} {
			req := request("a", "1", "a", "2")
			req.Descriptors[1].HitsAddend, req.Descriptors[1].IsNegativeHits = wrapperspb.UInt64(hits), back
			if _, failure := d.ask(t.Context(), t, req); failure == nil || failure.Code != invalidArgument {
				t.Errorf("%d hits: %v", hits, failure)
			}
		}
	}
	d.expect(t, "api: a=1", "OK: OK 3/HOUR left=2 reset=1770")
	d.expect(t, "api: a=2 hits=4294967295", "OVER: OVER 3/HOUR left=3 reset=1770")
	d.expect(t, "api: a=2 hits=4294967295 back", "OK: OK 3/HOUR left=3 reset=1770")
}

// frozen is a store that never answers.
type frozen struct{}

func (frozen) Decide(ctx context.Context, _ *stint.Call) error {
	<-ctx.Done()
	return ctx.Err()
}

// D3: a call waited forever for a store that hangs.
func TestDefectD3FrozenStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(limiter.New(frozen{}, deskOf(t, Options{}, plain).limiter.Table(), limiter.Options{}), Options{})
		data, err := proto.Marshal(request("a", "1"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err = h.Decide(ctx, new(Call), data)
		failure, _ := errors.AsType[*Error](err)
		if failure == nil || failure.Code != unknownCode || failure.Message != "the store did not decide in time" || time.Since(began) != 20*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// D5: monthly and yearly limits were never enforced (with Memcached).
func TestDefectD5MonthsAndYears(t *testing.T) {
	d := deskOf(t, Options{}, `
domain: api
descriptors:
  - {key: m, rate_limit: {unit: month, requests_per_unit: 2}}
  - {key: y, rate_limit: {unit: year, requests_per_unit: 2}}
`)
	for i := range 5 {
		for _, key := range []string{"m", "y"} {
			resp, failure := d.ask(t.Context(), t, request(key, "1"))
			if failure != nil || (resp.OverallCode == pb.RateLimitResponse_OK) != (i < 2) {
				t.Fatalf("%s, request %d: %v, %v", key, i, resp, failure)
			}
		}
	}
}

// D6: a value that was long or had a blank or a control character disabled all limits of its
// request (with Memcached).
func TestDefectD6OddValues(t *testing.T) {
	for _, value := range []string{" ", "a b", "\r\n", "\x00", "\x7f", "ü", "\xff\xfe", strings.Repeat("x", 300), strings.Repeat("y", 100_000)} {
		d := deskOf(t, Options{}, plain+"  - key: b\n    rate_limit: {unit: hour, requests_per_unit: 1}\n")
		// The generated types refuse to encode text that is not UTF-8.
		entry := appendBytes(appendBytes(nil, 1, "b"), 2, value)
		data := appendBytes(appendBytes(nil, 1, "api"), 2, appendBytes(nil, 1, entry))
		for i := range 3 {
			answer, err := d.Decide(t.Context(), &d.call, data)
			resp := new(pb.RateLimitResponse)
			if err != nil || proto.Unmarshal(answer, resp) != nil {
				t.Fatalf("%.20q: %v", value, err)
			}
			if (resp.OverallCode == pb.RateLimitResponse_OK) != (i == 0) {
				t.Errorf("%.20q, request %d: %v", value, i, resp)
			}
		}
	}
}

// D7: parts of keys were joined by "_", so unrelated clients could share a counter.
func TestDefectD7Separators(t *testing.T) {
	d := deskOf(t, Options{}, `
domain: api
descriptors:
  - key: a
    rate_limit: {unit: hour, requests_per_unit: 1}
    descriptors: [{key: b, rate_limit: {unit: hour, requests_per_unit: 1}}]
  - key: a_b
    rate_limit: {unit: hour, requests_per_unit: 1}
`)
	for _, question := range []string{"a=b_c", "a_b=c", "a=b,b=c", "a=b_b,b=c", "a=b,b=b_c", "a=b|c", "a=b/c", "a=1:c"} {
		for _, limit := range []string{"", " limit=1/HOUR"} {
			d.expect(t, "api: "+question+limit, "OK: OK 1/HOUR left=0 reset=1770")
		}
	}
}

// D8: the pattern of one key matched values of another key.
func TestDefectD8WildcardOfAnotherKey(t *testing.T) {
	d := deskOf(t, Options{}, `
domain: api
descriptors:
  - {key: tenant, value: "b*", rate_limit: {unit: hour, requests_per_unit: 1}}
`)
	d.expect(t, "api: tenant_bob=x", "OK: OK")
	d.expect(t, "api: tenant=bob", "OK: OK 1/HOUR left=0 reset=1770")
}

// D9: a rule with values in its metrics lost its metadata.
func TestDefectD9MetadataBesideMetrics(t *testing.T) {
	for _, word := range []string{"detailed_metric", "value_to_metric"} {
		d := deskOf(t, Options{Metadata: true}, `
domain: api
descriptors:
  - {key: a, `+word+`: true, metadata: {tier: gold}, rate_limit: {unit: hour, requests_per_unit: 1}}
`)
		resp, _ := d.ask(t.Context(), t, request("a", "1"))
		if got := fmt.Sprint(resp.GetDynamicMetadata().AsMap()["metadata"]); got != "map[tier:gold]" {
			t.Errorf("%s: metadata %s", word, got)
		}
	}
}

// D10: clients that had reached a limit stayed denied after the limit was raised.
func TestDefectD10RaisedLimit(t *testing.T) {
	d := deskOf(t, Options{}, plain)
	d.expect(t, "api hits=3: a=1", "OK: OK 3/HOUR left=0 reset=1770")
	d.expect(t, "api: a=1", "OVER: OVER 3/HOUR left=0 reset=1770")
	more, err := rulefile.Parse(rulefile.Source{Name: "x", Data: []byte(strings.ReplaceAll(plain, "unit: 3", "unit: 700"))})
	if err != nil {
		t.Fatal(err)
	}
	d.limiter.Swap(more)
	d.expect(t, "api: a=1", "OK: OK 700/HOUR left=696 reset=1770")
}

// D11: a rule in shadow mode that was over its limit stopped the other rules from counting.
func TestDefectD11ShadowFreezesOthers(t *testing.T) {
	d := deskOf(t, Options{}, plain+`
  - key: quiet
    shadow_mode: true
    rate_limit: {unit: hour, requests_per_unit: 0}
`)
	for left := range 3 {
		d.expect(t, "api: quiet=1; a=1", fmt.Sprintf("OK: OK 0/HOUR left=0 reset=1770; OK 3/HOUR left=%d reset=1770", 2-left))
	}
	d.expect(t, "api: quiet=1; a=1", "OVER: OK 0/HOUR left=0 reset=1770; OVER 3/HOUR left=0 reset=1770")
}

// D12: in global quota mode, one descriptor without a limit let every request pass.
func TestDefectD12QuotaAndUnmatched(t *testing.T) {
	d := deskOf(t, Options{Quota: true}, plain)
	d.expect(t, "api hits=3: a=1; nobody=1", "OK: OK 3/HOUR left=0 reset=1770; OK")
	d.expect(t, "api: a=1; nobody=1", "OVER: OVER 3/HOUR left=0 reset=1770; OK")
	d.expect(t, "api: nobody=1", "OK: OK")
}

// down is a store that always fails.
type down struct{}

func (down) Decide(context.Context, *stint.Call) error {
	return errors.New("dial tcp 10.0.0.7:6379: key r/api/a|1:1")
}

// D14: in JSON, a failure of the store was reported as an error of the client, and the error
// revealed keys and addresses.
func TestDefectD14StoreFailureInJSON(t *testing.T) {
	h := New(limiter.New(down{}, deskOf(t, Options{}, plain).limiter.Table(), limiter.Options{}), Options{})
	w := httptest.NewRecorder()
	body := `{"domain":"api","descriptors":[{"entries":[{"key":"a","value":"1"}]}]}`
	h.JSON().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/json", strings.NewReader(body)))
	const want = `{"error":{"code":"no_decision","message":"the store could not decide","context":{}}}` + "\n"
	if w.Code != http.StatusServiceUnavailable || w.Body.String() != want {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	data, err := proto.Marshal(request("a", "1"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Decide(t.Context(), new(Call), data)
	failure, _ := errors.AsType[*Error](err)
	if failure == nil || failure.Code != unknownCode || failure.Message != "the store could not decide" || failure.Unwrap() == nil {
		t.Errorf("%v", err)
	}
	if got := h.Stats(); got != (Stats{StoreErrors: 2}) {
		t.Errorf("%+v", got)
	}
}

// The handler keeps no string of a request, because the caller may reuse the bytes at once.
func TestNothingOfARequestIsKept(t *testing.T) {
	d := deskOf(t, Options{Headers: []rule.Preset{rule.IETF}, Metadata: true}, plain)
	var buffer []byte
	var err error
	for i := range 3 {
		for _, user := range []string{"x", "y"} {
			req := request("a", user, "n", user)
			req.Descriptors = append(req.Descriptors, &common.RateLimitDescriptor{Entries: req.Descriptors[0].Entries, Limit: &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 9, Unit: 3}})
			if buffer, err = (proto.MarshalOptions{}).MarshalAppend(buffer[:0], req); err != nil {
				t.Fatal(err)
			}
			answer, err := d.Decide(t.Context(), &d.call, buffer)
			copied := bytes.Clone(answer)
			for j := range buffer {
				buffer[j] = 0xff
			}
			resp := new(pb.RateLimitResponse)
			if err != nil || proto.Unmarshal(answer, resp) != nil || !bytes.Equal(copied, answer) {
				t.Fatal(err)
			}
			if got, own := resp.Statuses[0].LimitRemaining, resp.Statuses[2].LimitRemaining; got != uint32(2-i) || own != uint32(8-i) {
				t.Errorf("%s, request %d: %d and %d left", user, i, got, own)
			}
		}
	}
}
