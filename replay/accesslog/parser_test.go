package accesslog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"stint"
)

// lineTests are lines and the expected fields: client, time, method, path, query, user, agent,
// status; "" for an unparseable line.
var lineTests = []struct{ name, line, want string }{
	{"common", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | | | | 200"},
	{"combined", `192.0.2.1 - bob [17/May/2015:10:05:03 +0000] "GET /a?b=c&d HTTP/1.1" 404 5 "http://r/" "Agent/1 (x)"`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | b=c&d | bob | Agent/1 (x) | 404"},
	{"zone", `192.0.2.1 - - [17/May/2015:10:05:03 +0530] "GET /a HTTP/1.1" 200 5`, "192.0.2.1 2015-05-17T04:35:03Z GET /a | | | | 200"},
	{"zone west", `192.0.2.1 - - [31/Dec/2011:22:05:03 -0330] "GET /a HTTP/1.1" 200 5`, "192.0.2.1 2012-01-01T01:35:03Z GET /a | | | | 200"},
	{"leap day", `192.0.2.1 - - [29/Feb/2012:23:59:60 +0000] "GET /a HTTP/1.1" 200 5`, "192.0.2.1 2012-03-01T00:00:00Z GET /a | | | | 200"},
	{"fraction", `192.0.2.1 - - [17/May/2015:10:05:03.1256789 +0000] "GET /a HTTP/1.1" 200 5`, "192.0.2.1 2015-05-17T10:05:03.125678Z GET /a | | | | 200"},
	{"no zone", `192.0.2.1 - - [17/May/2015:10:05:03] "GET /a HTTP/1.1" 200 5`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | | | | 200"},
	{"no such day", `192.0.2.1 - - [30/Feb/2024:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, ""},
	{"no such month", `192.0.2.1 - - [17/Mai/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, ""},
	{"month across two", `192.0.2.1 - - [17/anF/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, ""},
	{"no such hour", `192.0.2.1 - - [17/May/2015:24:05:03 +0000] "GET /a HTTP/1.1" 200 5`, ""},
	{"before 1970", `192.0.2.1 - - [17/May/1969:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, ""},
	{"year 9999", `192.0.2.1 - - [17/May/9999:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, ""},

	{"cut in agent", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5 "-" "Agent`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | | | Agent | 200"},
	{"cut in protocol", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a HT`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | | | | 0"},
	{"cut in path", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | | | | 0"},
	{"cut before path", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET `, ""},
	{"cut in method", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GE`, ""},
	{"cut in time", `192.0.2.1 - - [17/May/2015:10:05`, ""},
	{"cut in address", `192.0.2`, ""},
	{"empty", ``, ""},
	{"blank", "  \t ", ""},
	{"no opening quote", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] GET /a HTTP/1.1" 200 5`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | | | | 200"},
	{"no quotes", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] GET /a HTTP/1.1 200 5`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | | | | 0"},
	{"no closing bracket", `192.0.2.1 - - [17/May/2015:10:05:03 +0000 "GET /a HTTP/1.1" 200 5`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | | | | 200"},
	{"not UTF-8", "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET /\xff\xfe HTTP/1.1\" 200 5 \"-\" \"\xc3\"", "192.0.2.1 2015-05-17T10:05:03Z GET /\xff\xfe | | | \xc3 | 200"},
	{"long", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5 "-" "` + strings.Repeat("x", 1<<20), "192.0.2.1 2015-05-17T10:05:03Z GET /a | | | " + strings.Repeat("x", 1<<20) + " | 200"},
	{"quote in path", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a\"b HTTP/1.1" 200 5`, `192.0.2.1 2015-05-17T10:05:03Z GET /a\"b | | | | 200`},
	{"quote in agent", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5 "-" "a \"b\" \\" "more"`, `192.0.2.1 2015-05-17T10:05:03Z GET /a | | | a \"b\" \\ | 200`},
	{"bracket in user", `192.0.2.1 - [bob] [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | | [bob] | | 200"},
	{"space in user", `192.0.2.1 - bob smith [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | | bob smith | | 200"},
	{"spaces before", `   192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | | | | 200"},

	{"no request", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "-" 408 0`, ""},
	{"empty request", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "" 400 0`, ""},
	{"TLS on a plain port", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "\x16\x03\x01 \x02" 400 226`, ""},
	{"raw TLS", "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"\x16\x03\x01 \x02\" 400 226", ""},
	{"SSH", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "SSH-2.0-Go" 400 226`, ""},
	{"path missing", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET HTTP/1.1" 400 226`, ""},
	{"not a target", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "t3 12.1.2" 400 226`, ""},
	{"only a query", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET ?a HTTP/1.1" 400 226`, ""},
	{"absolute", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET http://example.org/a?b HTTP/1.1" 200 5`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | b | | | 200"},
	{"absolute without path", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET http://example.org HTTP/1.1" 200 5`, "192.0.2.1 2015-05-17T10:05:03Z GET / | | | | 200"},
	{"asterisk", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "OPTIONS * HTTP/1.0" 200 5`, "192.0.2.1 2015-05-17T10:05:03Z OPTIONS * | | | | 200"},
	{"connect", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "CONNECT example.org:443 HTTP/1.1" 405 5`, "192.0.2.1 2015-05-17T10:05:03Z CONNECT example.org:443 | | | | 405"},
	{"HTTP/0.9", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a" 200 5`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | | | | 200"},
	{"two spaces", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET  /a  HTTP/1.1" 200 5`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | | | | 200"},

	{"v6", `2001:DB8::7:1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, "2001:db8::7:1 2015-05-17T10:05:03Z GET /a | | | | 200"},
	{"v4 in v6", `::ffff:192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | | | | 200"},
	{"port", `192.0.2.1:4711 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | | | | 200"},
	{"v6 with port", `[2001:db8:0:9::1]:4711 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, "2001:db8:0:9::1 2015-05-17T10:05:03Z GET /a | | | | 200"},
	{"v6 with zone", `fe80::1%eth0 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, "fe80::1 2015-05-17T10:05:03Z GET /a | | | | 200"},
	{"v6 in brackets", `[2001:db8::1] - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, "2001:db8::1 2015-05-17T10:05:03Z GET /a | | | | 200"},
	{"half a bracket", `[2001:db8::1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, ""},
	{"name", `host.example.org - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, "host.example.org 2015-05-17T10:05:03Z GET /a | | | | 200"},
	{"socket", `unix: - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, "unix: 2015-05-17T10:05:03Z GET /a | | | | 200"},
	{"virtual host", `www.example.org:443 192.0.2.1 - bob [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | | bob | | 200"},
	{"no address", `- - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, ""},
	{"wrong address", `192.0.2.256 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, ""},
	{"short address", `192.0.2 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, ""},
	{"leading zero", `192.0.02.1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, ""},
	{"list of addresses", `192.0.2.1, 192.0.2.2 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5`, ""},

	{"nginx JSON", `{"time_iso8601":"2015-05-17T12:05:03+02:00","remote_addr":"192.0.2.1","remote_user":"bob","request":"GET /a?b HTTP/1.1","status":"200","http_user_agent":"A \"1\""}`, `192.0.2.1 2015-05-17T10:05:03Z GET /a | b | bob | A "1" | 200`},
	{"nginx JSON, parts", `{"msec":"1431857103.125","time_iso8601":"2015-05-17T10:05:03+00:00","remote_addr":"192.0.2.1","request_method":"GET","request_uri":"/a?b","uri":"/index","status":200}`, `192.0.2.1 2015-05-17T10:05:03.125Z GET /a | b | | | 200`},
	{"nginx JSON, local time", `{"time_local":"17/May/2015:10:05:03 +0000","remote_addr":"192.0.2.1","request_method":"GET","uri":"/a"}`, `192.0.2.1 2015-05-17T10:05:03Z GET /a | | | | 0`},
	{"Caddy", `{"level":"info","ts":1431857103.1256789,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"198.51.100.1","remote_port":"41342","client_ip":"192.0.2.1","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/a?b","headers":{"User-Agent":["curl/7.82.0","x"],"Accept":["*/*"]},"tls":{"resumed":false}},"user_id":"","duration":0.000929675,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"]}}`, `192.0.2.1 2015-05-17T10:05:03.125678Z GET /a | b | | curl/7.82.0 | 200`},
	{"plain words", `{"time":1431857103.25,"ip":"192.0.2.1","method":"GET","path":"/a?b"}`, "192.0.2.1 2015-05-17T10:05:03.25Z GET /a | b | | | 0"},
	{"milliseconds", `{"ts":1431857103125,"addr":"192.0.2.1:5","method":"GET","url":"/a"}`, "192.0.2.1 2015-05-17T10:05:03.125Z GET /a | | | | 0"},
	{"ip beside client_ip", `{"time":"2015-05-17T10:05:03Z","ip":"192.0.2.9","client_ip":"192.0.2.1","method":"GET","path":"/a"}`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | | | | 0"},
	{"grok", `{"timestamp":"17/May/2015:10:05:03 +0000","clientip":"192.0.2.1","verb":"GET","request":"/a?b"}`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | b | | | 0"},
	{"a target alone", `{"time":"2015-05-17T10:05:03Z","ip":"192.0.2.1","request":"/a"}`, ""},
	{"Traefik", `{"ClientAddr":"192.0.2.1:4711","ClientHost":"192.0.2.1","ClientUsername":"-","DownstreamStatus":200,"RequestMethod":"GET","RequestPath":"/a?b","RequestProtocol":"HTTP/1.1","StartUTC":"2015-05-17T10:05:03.125678901Z","time":"2015-05-17T10:05:04Z","request_User-Agent":"x"}`, `192.0.2.1 2015-05-17T10:05:03.125678Z GET /a | b | | x | 200`},
	{"Elastic", `{"@timestamp":"2015-05-17T10:05:03.000Z","source":{"ip":"2001:db8::1"},"http":{"request":{"method":"GET"},"response":{"status_code":200}},"url":{"original":"/a?b"}}`, `2001:db8::1 2015-05-17T10:05:03Z GET /a | b | | | 200`},
	{"JSON, milliseconds", ` {"ts":1431857103125,"remote_ip":"192.0.2.1","method":"GET","path":"\/a\u002Fb\u00e9\ud83d\ude00"}`, "192.0.2.1 2015-05-17T10:05:03.125Z GET /a/bé😀 | | | | 0"},
	{"JSON, nanoseconds", `{"ts":1431857103125678901,"remote_ip":"192.0.2.1","method":"GET","path":"/a"}`, "192.0.2.1 2015-05-17T10:05:03.125678Z GET /a | | | | 0"},
	{"JSON, exponent", `{"ts":1.431857103e9,"remote_ip":"192.0.2.1","method":"GET","path":"/a"}`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | | | | 0"},
	{"JSON, space for T", `{"time":"2015-05-17 10:05:03,125","remote_ip":"192.0.2.1","method":"GET","path":"/a"}`, "192.0.2.1 2015-05-17T10:05:03.125Z GET /a | | | | 0"},
	{"JSON, cut off", `{"ts":1431857103,"remote_ip":"192.0.2.1","method":"GET","path":"/a","agent":"x`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | | | x | 0"},
	{"JSON, wrong behind", `{"ts":1431857103,"remote_ip":"192.0.2.1","method":"GET","path":"/a", nonsense`, "192.0.2.1 2015-05-17T10:05:03Z GET /a | | | | 0"},
	{"JSON, null", `{"ts":1431857103,"remote_ip":"192.0.2.1","method":null,"path":"/a"}`, ""},
	{"JSON, wrong time", `{"ts":"yesterday","remote_ip":"192.0.2.1","method":"GET","path":"/a"}`, ""},
	{"JSON, no address", `{"ts":1431857103,"method":"GET","path":"/a"}`, ""},
	{"JSON, TLS on a plain port", `{"time_iso8601":"2015-05-17T12:05:03+02:00","remote_addr":"192.0.2.1","request":"\u0016\u0003\u0001","request_method":"","uri":""}`, ""},
	{"JSON, deep", `{"a":` + strings.Repeat("[", 100_000), ""},
	{"JSON, another object", `{"a":1}`, ""},
}

func TestParse(t *testing.T) {
	p := Parser{Parts: User | Headers}
	for _, test := range lineTests {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			if r, ok := p.Parse([]byte(test.line)); ok {
				got = describe(r)
			}
			if got != test.want {
				t.Errorf("%.300q\nread %.300q,\nwant %.300q", test.line, got, test.want)
			}
		})
	}
}

func describe(r *Record) string {
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s | %s | %s | %s | %d", r.AppendHost(nil),
		r.At.Time().Format(time.RFC3339Nano), r.Method, r.Path, r.Query, r.User, r.Agent, r.Status)), " ")
}

// TestStampCache parses time stamps in an order that reveals errors of the cache.
func TestStampCache(t *testing.T) {
	var c stampCache
	for _, stamp := range []string{
		"17/May/2015:10:05:03 +0000", "17/May/2015:10:05:59 +0000", "17/May/2015:10:05:59 +0200", "17/May/2015:10:06:00 +0200",
		"18/May/2015:10:06:00 +0200", "18/May/2016:10:06:00 +0200", "18/May/2015:10:06:00 +0200", "17/May/2015:10:05:03 -0000",
	} {
		want, err := time.Parse("02/Jan/2006:15:04:05 -0700", stamp)
		if err != nil {
			t.Fatal(err)
		}
		if at, n, ok := c.parse([]byte(stamp + "]")); !ok || n != len(stamp) || at != stint.At(want) {
			t.Errorf("%s: %v, %d bytes, %v", stamp, at.Time(), n, ok)
		}
	}
}

// TestParseAllocates checks that parsing a line of the usual formats does not allocate.
func TestParseAllocates(t *testing.T) {
	p := Parser{Parts: User | Headers}
	for _, name := range []string{"combined", "nginx JSON", "Traefik", "Envoy", "HAProxy", "ALB", "Cloudflare"} {
		for _, test := range slices.Concat(lineTests, formatTests) {
			if test.name != name || strings.Contains(test.line, "2001:") {
				continue
			}
			line := []byte(test.line)
			p.Parse(line)
			if n := testing.AllocsPerRun(100, func() { p.Parse(line) }); n > 0 {
				t.Errorf("%s: %v allocations", name, n)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, test := range lineTests {
		f.Add([]byte(test.line[:min(len(test.line), 500)]))
	}
	for _, test := range formatTests {
		f.Add([]byte(test.line))
	}
	p := Parser{Parts: User | Headers}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, ok := p.Parse(line)
		if !ok {
			return
		}
		if r.At <= 0 || r.At > stint.MaxInstant || len(r.Method) == 0 || len(r.Path) == 0 || len(r.AppendHost(nil)) == 0 {
			t.Fatalf("%q: parsed without its parts: %s", line, describe(r))
		}
		if strings.ContainsAny(string(r.Path), "? ") && line[0] != '{' && !strings.HasPrefix(strings.TrimLeft(string(line), " \t"), "{") {
			t.Fatalf("%q: path %q", line, r.Path)
		}
		before := describe(r)
		var fresh Parser
		fresh.Parts = User | Headers
		again, ok := fresh.Parse(line)
		if !ok || describe(again) != before {
			t.Fatalf("%q: depends on the line before: %s", line, before)
		}
	})
}

// BenchmarkParse reads a line of a real log.
func BenchmarkParse(b *testing.B) {
	line := []byte(`83.149.9.216 - - [17/May/2015:10:05:03 +0000] "GET /presentations/images/kibana-search.png HTTP/1.1" 200 203023 ` +
		`"http://example.org/presentations/" "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_1) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/32.0 Safari/537.36"`)
	for name, parts := range map[string]Parts{"plain": 0, "headers": Headers} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			p := Parser{Parts: parts}
			for b.Loop() {
				if _, ok := p.Parse(line); !ok {
					b.Fatal("cannot be parsed")
				}
			}
		})
	}
}
