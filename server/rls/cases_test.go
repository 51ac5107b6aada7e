package rls

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"stint"
	"stint/internal/testkit"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// Each case in testdata/cases is a series of requests and expected answers in text form. Each is
// tested in both encodings, with a fresh store at 12:30:30 of a day.
//
//	case NAME                          begins a case; indented lines are its rule file,
//	domain: api                    "---" begins the next file
//	options WORD...                    see parseOptions
//	wait 30s                           advances the time
//	ask api: user=1,path=/ => ANSWER   sends a request; descriptors are separated by ";" and
//	may have hits=N, back, limit=5/MINUTE or
//	limit=5/MINUTEx2; "api hits=3:" sets hits_addend
//	ask N times api: ...               sends it N times; each answer must be the same
//	metadata {...}                     is the dynamic metadata of the last answer
//
// An answer is the overall code and the status of each descriptor, in the form of answerText, or
// "error CODE TEXT".
func TestCases(t *testing.T) {
	for _, file := range testkit.GoldenInputs(t, "testdata/cases/*.txt") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range strings.Split("\n"+string(data), "\ncase ")[1:] {
			name, body, _ := strings.Cut(text, "\n")
			group := strings.TrimSuffix(filepath.Base(file), ".txt")
			t.Run(group+"/"+name+"/bytes", func(t *testing.T) { runCase(t, body, (*desk).askBytes) })
			t.Run(group+"/"+name+"/json", func(t *testing.T) { runCase(t, body, (*desk).askJSON) })
		}
	}
}

type asker func(d *desk, t *testing.T, req *pb.RateLimitRequest) (*pb.RateLimitResponse, *Error)

func (d *desk) askBytes(t *testing.T, req *pb.RateLimitRequest) (*pb.RateLimitResponse, *Error) {
	return d.ask(t.Context(), t, req)
}

// askJSON sends a request in JSON over HTTP, and checks that the HTTP status matches the answer.
func (d *desk) askJSON(t *testing.T, req *pb.RateLimitRequest) (*pb.RateLimitResponse, *Error) {
	data, err := protojson.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	d.JSON().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/json", strings.NewReader(string(data))))
	if w.Code == http.StatusBadRequest || w.Code == http.StatusServiceUnavailable {
		var body struct{ Error struct{ Message string } }
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Fatalf("%s: %v", w.Body, err)
		}
		return nil, &Error{Message: body.Error.Message}
	}
	resp := new(pb.RateLimitResponse)
	if err := protojson.Unmarshal(w.Body.Bytes(), resp); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	want := http.StatusOK
	if resp.OverallCode == pb.RateLimitResponse_OVER_LIMIT {
		want = http.StatusTooManyRequests
	}
	if w.Code != want {
		t.Errorf("status %d, want %d", w.Code, want)
	}
	return resp, nil
}

func runCase(t *testing.T, body string, ask asker) {
	files, options, last := []string{""}, Options{}, (*pb.RateLimitResponse)(nil)
	var d *desk
	for line := range strings.SplitSeq(body, "\n") {
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case line == "    ---":
			files = append(files, "")
		case strings.HasPrefix(line, "    "):
			files[len(files)-1] += strings.TrimPrefix(line, "    ") + "\n"
		case word == "options":
			options = parseOptions(t, rest)
		case word == "wait":
			pass, err := time.ParseDuration(rest)
			if err != nil {
				t.Fatal(err)
			}
			d.now = d.now.Add(pass)
		case word == "ask":
			if d == nil {
				d = newCaseDesk(t, files, options)
			}
			last = d.check(t, rest, ask)
		case word == "metadata":
			want := map[string]any{}
			if err := json.Unmarshal([]byte(rest), &want); err != nil {
				t.Fatal(err)
			}
			if got := last.GetDynamicMetadata().AsMap(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("metadata %v, want %v", got, want)
			}
		default:
			t.Fatalf("unknown word in %q", line)
		}
	}
}

// check sends the request of a line and compares the answer.
func (d *desk) check(t *testing.T, line string, ask asker) (resp *pb.RateLimitResponse) {
	t.Helper()
	question, want, _ := strings.Cut(line, " => ")
	times := 1
	if n, rest, ok := strings.Cut(question, " times "); ok {
		times, _ = strconv.Atoi(n)
		question = rest
	}
	for i := range times {
		var failure *Error
		resp, failure = ask(d, t, parseRequest(t, question))
		got := ""
		if failure != nil {
			got = "error " + failure.Message
			if failure.Code != 0 {
				got = fmt.Sprintf("error %d %s", failure.Code, failure.Message)
			} else if fields := strings.SplitN(want, " ", 3); fields[0] == "error" {
				want = "error " + fields[2]
			}
		} else {
			got = d.answerText(resp)
		}
		if got != want {
			t.Fatalf("%s (%d)\n got %s\nwant %s", question, i, got, want)
		}
	}
	return resp
}

func newCaseDesk(t *testing.T, files []string, o Options) *desk {
	t.Helper()
	var sources []rulefile.Source
	for i, text := range files {
		if text != "" {
			sources = append(sources, rulefile.Source{Name: fmt.Sprintf("file%d.yaml", i), Data: []byte(text)})
		}
	}
	var table *rule.Table
	if len(sources) > 0 {
		var err error
		if table, err = rulefile.Parse(sources...); err != nil {
			t.Fatal(err)
		}
	}
	d := &desk{now: zero}
	d.Handler = New(limiter.New(memory.New(memory.Options{Clock: func() stint.Instant { return d.now }}), table, limiter.Options{}), o)
	return d
}

func parseOptions(t *testing.T, words string) (o Options) {
	for word := range strings.FieldsSeq(words) {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "shadow":
			o.Shadow = true
		case "quota":
			o.Quota = true
		case "metadata":
			o.Metadata = true
		case "grant":
			n, _ := strconv.Atoi(value)
			o.Grant = uint32(n)
		case "limit-headers":
			o.LimitHeaders = LimitHeaders{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"}
		case "custom-headers":
			o.LimitHeaders = LimitHeaders{"a", "b", "c"}
		case "delta":
			o.Reset = Delta
		case "headers":
			for p := range strings.SplitSeq(value, ",") {
				preset, ok := rule.ParsePreset(p)
				if !ok {
					t.Fatalf("no preset %q", p)
				}
				o.Headers = append(o.Headers, preset)
			}
		default:
			t.Fatalf("no option %q", word)
		}
	}
	return o
}

func parseRequest(t *testing.T, text string) *pb.RateLimitRequest {
	t.Helper()
	head, list, _ := strings.Cut(text, ":")
	domain, hits, _ := strings.Cut(head, " hits=")
	req := &pb.RateLimitRequest{Domain: domain}
	if hits != "" {
		n, err := strconv.ParseUint(hits, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		req.HitsAddend = uint32(n)
	}
	if list = strings.TrimSpace(list); list == "" {
		return req
	}
	for one := range strings.SplitSeq(list, ";") {
		d := new(common.RateLimitDescriptor)
		for word := range strings.FieldsSeq(one) {
			parseDescriptor(t, d, word)
		}
		req.Descriptors = append(req.Descriptors, d)
	}
	return req
}

// parseDescriptor adds a word of the request to a descriptor; "-" is a descriptor without entries.
func parseDescriptor(t *testing.T, d *common.RateLimitDescriptor, word string) {
	t.Helper()
	name, value, _ := strings.Cut(word, "=")
	switch name {
	case "-":
	case "back":
		d.IsNegativeHits = true
	case "hits":
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		d.HitsAddend = wrapperspb.UInt64(n)
	case "limit":
		number, per, _ := strings.Cut(value, "/")
		n, _ := strconv.Atoi(number)
		name, multiplier, scaled := strings.Cut(per, "x")
		unit, known := typev3.RateLimitUnit_value[name]
		if !known {
			other, err := strconv.Atoi(name)
			if err != nil {
				t.Fatalf("no unit %q", name)
			}
			unit = int32(other)
		}
		d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(n), Unit: typev3.RateLimitUnit(unit)}
		if scaled {
			m, _ := strconv.ParseUint(multiplier, 10, 32)
			d.Limit.UnitMultiplier = wrapperspb.UInt32(uint32(m))
		}
	default:
		for pair := range strings.SplitSeq(word, ",") {
			key, value, _ := strings.Cut(pair, "=")
			d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
	}
}

var codes = map[pb.RateLimitResponse_Code]string{pb.RateLimitResponse_OK: "OK", pb.RateLimitResponse_OVER_LIMIT: "OVER"}

// answerText formats a response, such as
//
//	OVER: OK 5/HOUR left=4 reset=1770; OVER 1/MINUTEx15 name=x left=0 reset=870 | Retry-After=870
func (d *desk) answerText(resp *pb.RateLimitResponse) string {
	var b strings.Builder
	b.WriteString(codes[resp.OverallCode] + ":")
	for i, s := range resp.Statuses {
		if i > 0 {
			b.WriteString(";")
		}
		b.WriteString(" " + codes[s.Code])
		if l := s.CurrentLimit; l != nil {
			fmt.Fprintf(&b, " %d/%v", l.RequestsPerUnit, l.Unit)
			if l.UnitMultiplier != nil {
				fmt.Fprintf(&b, "x%d", l.UnitMultiplier.Value)
			}
			if l.Name != "" {
				b.WriteString(" name=" + l.Name)
			}
			fmt.Fprintf(&b, " left=%d reset=%s", s.LimitRemaining, strconv.FormatFloat(s.DurationUntilReset.AsDuration().Seconds(), 'f', -1, 64))
		} else if s.LimitRemaining > 0 {
			fmt.Fprintf(&b, " left=%d", s.LimitRemaining)
		}
		if q := s.Quota; q != nil {
			fmt.Fprintf(&b, " grant=%d for=%v", q.Requests, q.GetValidUntil().AsTime().Sub(d.now.Time()))
		}
	}
	for i, h := range resp.ResponseHeadersToAdd {
		if i == 0 {
			b.WriteString(" |")
		}
		b.WriteString(" " + h.Key + "=" + h.Value)
	}
	return b.String()
}

// The response to a plain request has the same bytes as one encoded by the generated types.
func TestBytes(t *testing.T) {
	d := newDesk(t, perMinute, Options{})
	data, err := proto.Marshal(request("user", "42", "x", "y"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Decide(context.Background(), &d.call, data)
	const want = "\x08\x01\x12\x12\x08\x01\x12\x06\x08\xc0\x84\x3d\x10\x02\x18\xbf\x84\x3d\x22\x02\x08\x1e\x12\x02\x08\x01"
	if err != nil || string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
