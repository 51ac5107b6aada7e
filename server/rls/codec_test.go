package rls

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"stint"
	"stint/rule"
)

// toProto converts the message to the generated type.
func (m *message) toProto() *pb.RateLimitRequest {
	req := &pb.RateLimitRequest{Domain: m.domain, HitsAddend: m.hits}
	for i := range m.descriptors {
		d := m.extraOf(i)
		out := &common.RateLimitDescriptor{IsNegativeHits: d.negative}
		for _, e := range m.entriesOf(i) {
			out.Entries = append(out.Entries, &common.RateLimitDescriptor_Entry{Key: e.Key, Value: e.Value})
		}
		if d.counted {
			out.HitsAddend = wrapperspb.UInt64(d.hits)
		}
		if d.limited {
			out.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: d.override.requests, Unit: typev3.RateLimitUnit(d.override.unit)}
			if d.override.scaled {
				out.Limit.UnitMultiplier = wrapperspb.UInt32(d.override.multiplier)
			}
		}
		req.Descriptors = append(req.Descriptors, out)
	}
	return req
}

var texts = []string{"", "a", "api", "path", "/v1/x", "käse", "\x00", "1234567890123456789012345678901234567890"}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// randomRequest returns a random request.
func randomRequest(r *rand.Rand) *pb.RateLimitRequest {
	req := &pb.RateLimitRequest{Domain: pick(r, texts...), HitsAddend: pick[uint32](r, 0, 1, 300, math.MaxUint32)}
	for range r.IntN(5) {
		d := &common.RateLimitDescriptor{IsNegativeHits: r.IntN(3) == 0}
		for range r.IntN(4) {
			d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: pick(r, texts...), Value: pick(r, texts...)})
		}
		if r.IntN(2) == 0 {
			d.HitsAddend = wrapperspb.UInt64(pick[uint64](r, 0, 1, 128, math.MaxUint64))
		}
		if r.IntN(2) == 0 {
			d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: r.Uint32N(300), Unit: typev3.RateLimitUnit(r.IntN(9) - 1)}
			if r.IntN(2) == 0 {
				d.Limit.UnitMultiplier = wrapperspb.UInt32(r.Uint32N(3))
			}
		}
		req.Descriptors = append(req.Descriptors, d)
	}
	return req
}

// A request encoded by the generated types is decoded to the same request, in both encodings.
func TestRequestsAreReadAsTheGeneratedTypesWriteThem(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var m message
	for range 2000 {
		want := randomRequest(r)
		data, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if m.decode(data) != nil || !proto.Equal(m.toProto(), want) {
			t.Fatalf("%x is read as\n%v\nwant\n%v", data, m.toProto(), want)
		}
		names := protojson.MarshalOptions{UseProtoNames: r.IntN(2) == 0, EmitUnpopulated: r.IntN(2) == 0}
		text, err := names.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.decodeJSON(bytes.Clone(text)); err != nil {
			// The generated types write an unknown unit as a number, which may be negative.
			if bytes.Contains(text, []byte("-1")) {
				continue
			}
			t.Fatalf("%s: %v", text, err)
		}
		if !proto.Equal(m.toProto(), want) {
			t.Fatalf("%s is read as\n%v\nwant\n%v", text, m.toProto(), want)
		}
	}
}

// toProto converts the response to the generated type.
func (r *rlsResponse) toProto() *pb.RateLimitResponse {
	code := func(over bool) pb.RateLimitResponse_Code {
		if over {
			return pb.RateLimitResponse_OVER_LIMIT
		}
		return pb.RateLimitResponse_OK
	}
	out := &pb.RateLimitResponse{OverallCode: code(r.over)}
	for i := range r.statuses {
		s := &r.statuses[i]
		o := &pb.RateLimitResponse_DescriptorStatus{Code: code(s.over), LimitRemaining: s.remaining}
		if s.numbered {
			o.CurrentLimit = &pb.RateLimitResponse_RateLimit{Name: s.limit.name, RequestsPerUnit: s.limit.requests, Unit: pb.RateLimitResponse_RateLimit_Unit(s.limit.unit)}
			if s.limit.multiplier > 0 {
				o.CurrentLimit.UnitMultiplier = wrapperspb.UInt32(s.limit.multiplier)
			}
			o.DurationUntilReset = &durationpb.Duration{Seconds: s.reset}
		}
		if g := &s.grant; g.requests > 0 {
			o.Quota = &pb.RateLimitResponse_Quota{Requests: g.requests, Id: g.id, ExpirationSpecifier: &pb.RateLimitResponse_Quota_ValidUntil{ValidUntil: timestamppb.New(g.until.Time())}}
		}
		out.Statuses = append(out.Statuses, o)
	}
	return out
}

// randomCall returns a call with a random answer.
func randomCall(r *rand.Rand) *Call {
	c := new(Call)
	c.response.over = r.IntN(2) == 0
	for range r.IntN(12) {
		s := status{over: r.IntN(2) == 0, remaining: pick[uint32](r, 0, 1, 127, 128, math.MaxUint32)}
		if s.numbered = r.IntN(3) > 0; s.numbered {
			s.limit = shape{name: pick(r, texts...), requests: pick[uint32](r, 0, 5, math.MaxUint32), unit: unit(r.IntN(8)), multiplier: r.Uint32N(3)}
			s.reset = pick[int64](r, 0, 1, 59, 31536000)
		}
		if r.IntN(3) == 0 {
			s.grant = grant{requests: 1 + r.Uint32N(9), until: stint.Instant(r.Int64N(int64(stint.MaxInstant))), id: pick(r, texts...)}
		}
		c.response.statuses = append(c.response.statuses, s)
	}
	if r.IntN(2) == 0 {
		c.fields.names = LimitHeaders{"RateLimit-Limit", "", "x"}
		c.fields.text = [3][]byte{[]byte("5"), []byte("no"), []byte("59")}
	}
	c.metadata.object = randomObject(r, 3)
	return c
}

func randomObject(r *rand.Rand, depth int) map[string]any {
	object := map[string]any{}
	for range r.IntN(5) {
		object[pick(r, texts...)] = randomValue(r, depth)
	}
	return object
}

func randomValue(r *rand.Rand, depth int) any {
	switch n := r.IntN(9); {
	case n == 0 && depth > 0:
		return randomObject(r, depth-1)
	case n == 1 && depth > 0:
		list := []any{}
		for range r.IntN(4) {
			list = append(list, randomValue(r, depth-1))
		}
		return list
	case n < 4:
		return pick(r, texts...)
	case n < 6:
		return n == 4
	case n == 6:
		return nil
	}
	return pick[any](r, 0, int64(-5), uint64(math.MaxUint64), 1.5)
}

// The generated types decode our responses to the same response, in both encodings.
func TestResponsesAreReadByTheGeneratedTypes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		c := randomCall(r)
		want := c.response.toProto()
		if c.fields.names.Limit != "" {
			want.ResponseHeadersToAdd = []*core.HeaderValue{{Key: "RateLimit-Limit", Value: "5"}, {Key: "x", Value: "59"}}
		}
		var err error
		var extra []byte
		with := len(c.metadata.object) > 0
		if with {
			extra = c.metadata.encode()
			if want.DynamicMetadata, err = structpb.NewStruct(c.metadata.object); err != nil {
				t.Fatal(err)
			}
		}
		data := c.response.append(nil, &c.fields, extra)
		got := new(pb.RateLimitResponse)
		if err := proto.Unmarshal(data, got); err != nil || !proto.Equal(got, want) {
			t.Fatalf("%v: read as\n%v\nwant\n%v", err, got, want)
		}
		if plain, err := (proto.MarshalOptions{Deterministic: true}).Marshal(want); err != nil || !bytes.Equal(plain, data) {
			t.Fatalf("%v: encoded as\n%x\nwant\n%x", err, data, plain)
		}
		got = new(pb.RateLimitResponse)
		text := c.appendJSON(nil, with)
		if err := protojson.Unmarshal(text, got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !proto.Equal(got, want) {
			t.Fatalf("%s: read as\n%v\nwant\n%v", text, got, want)
		}
	}
}

// For any bytes: we decode the same request as the generated types, and refuse what they refuse,
// except strings that are not UTF-8.
func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		data, err := proto.Marshal(randomRequest(r))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, odd := range []string{
		"\x00", "\x07", "\x0b\x0c", "\x0b\x13\x14\x0c", "\x0b\x0a\x01a\x0c\x18\x05", "\x0c", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "\x0a\x05ab", "\x1d\x01\x02\x03\x04",
		"\x12\x04\x1a\x00\x1a\x00", "\x12\x08\x1a\x02\x08\x05\x1a\x00\x20\x07", "\x0a\x01\xff", "\xf8\xff\xff\xff\x7f\x01",
		"\xf8\xff\xff\xff\x0f\x01", "\x80\x80\x80\x80\x10\x01", "\xf8\xff\xff\xff\x3f\x01", "\x0b\x0b\x0c\x0c", "\x0b\x13\x0c\x14", "\x0b\x0b\x0c",
	} {
		f.Add([]byte(odd))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m message
		ok := m.decode(data) == nil
		want := new(pb.RateLimitRequest)
		err := proto.Unmarshal(data, want)
		if ok && err != nil && strings.Contains(err.Error(), "UTF-8") {
			return
		}
		if ok != (err == nil) {
			t.Fatalf("%x: read %v, want %v", data, ok, err)
		}
		if ok && !proto.Equal(m.toProto(), stripped(want)) {
			t.Fatalf("%x is read as\n%v\nwant\n%v", data, m.toProto(), want)
		}
	})
}

// stripped removes the unknown fields of a request.
func stripped(req *pb.RateLimitRequest) *pb.RateLimitRequest {
	req.ProtoReflect().SetUnknown(nil)
	for _, d := range req.Descriptors {
		d.ProtoReflect().SetUnknown(nil)
		for _, e := range d.Entries {
			e.ProtoReflect().SetUnknown(nil)
		}
		if d.HitsAddend != nil {
			d.HitsAddend.ProtoReflect().SetUnknown(nil)
		}
		if d.Limit != nil {
			d.Limit.ProtoReflect().SetUnknown(nil)
			if d.Limit.UnitMultiplier != nil {
				d.Limit.UnitMultiplier.ProtoReflect().SetUnknown(nil)
			}
		}
	}
	return req
}

// For any text: if the generated types decode a JSON request, we decode the same request; if they
// refuse it, so do we.
func FuzzDecodeJSON(f *testing.F) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 30 {
		data, err := protojson.Marshal(randomRequest(r))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, odd := range []string{
		`{"domain":null,"hits_addend":"5"}`, `{"hitsAddend":5.0}`, `{"hitsAddend":"1e2"}`, `{"hitsAddend":1.5}`, `{"hitsAddend":-1}`,
		`{"domain":"a","domain":"b"}`, `{"hitsAddend":1,"hits_addend":2}`, `{"x":1}`, `{} {}`, `[]`, `null`, `{"domain":"\ud800"}`,
		`{"domain":"\ud83d\ude00"}`, `{"descriptors":[null]}`, `{"descriptors":[{"hitsAddend":null,"limit":{}}]}`, `{"descriptors":[{"limit":{"unit":"DAY"}}]}`,
		`{"descriptors":[{"limit":{"unit":99,"unitMultiplier":"3"}}]}`, `{"descriptors":[{"isNegativeHits":"true"}]}`, `{"hitsAddend":4294967296}`,
	} {
		f.Add([]byte(odd))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m message
		mine := m.decodeJSON(bytes.Clone(data))
		want := new(pb.RateLimitRequest)
		err := protojson.Unmarshal(data, want)
		if mine == nil && err != nil {
			t.Fatalf("%q: read, want %v", data, err)
		}
		if mine == nil && !proto.Equal(m.toProto(), want) {
			t.Fatalf("%q is read as\n%v\nwant\n%v", data, m.toProto(), want)
		}
	})
}

// A group may contain 100 levels of groups including itself. Without a limit, 20 kB of nested groups
// would take 1 MiB of stack.
func TestGroupsNestUpTo100(t *testing.T) {
	for depth, want := range map[int]bool{1: true, 99: true, 100: true, 101: false, 9999: false, 500_000: false} {
		groups := append(bytes.Repeat([]byte{0x4b}, depth), bytes.Repeat([]byte{0x4c}, depth)...)
		entry := appendBytes(nil, 1, groups)
		for where, data := range map[string][]byte{
			"request": groups, "descriptor": appendBytes(nil, 2, groups), "entry": appendBytes(nil, 2, entry),
			"limit": appendBytes(nil, 2, appendBytes(nil, 2, groups)), "two": append(bytes.Clone(groups), groups...),
		} {
			if err := new(message).decode(data); (err == nil) != want {
				t.Errorf("%d levels in %s: %v", depth, where, err)
			}
		}
	}
}

// Strings of a request may have any bytes. A header that Envoy passes on must be limited; if we
// refused the request, Envoy would let it pass.
func TestValuesNeedNotBeUTF8(t *testing.T) {
	var m message
	if m.decode([]byte("\x12\x08\x0a\x06\x0a\x01k\x12\x01\xff")) != nil {
		t.Fatal("refused")
	}
	if got := m.entries[0]; got != (rule.Entry{Key: "k", Value: "\xff"}) {
		t.Errorf("read as %q", got)
	}
}
