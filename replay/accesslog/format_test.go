package accesslog

import (
	"fmt"
	"testing"
)

// formatTests are lines from the manuals of the programs, with documentation addresses.
var formatTests = []struct{ name, line, want string }{
	{
		"Envoy", `[2016-04-15T20:17:00.310Z] "POST /api/v1/locations?a=b HTTP/2" 204 - 154 0 226 100 "192.0.2.1" "nsq2http" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "tcp://10.0.2.1:80"`,
		"envoy 192.0.2.1 2016-04-15T20:17:00.31Z POST /api/v1/locations | a=b | | nsq2http | 204 locations",
	},
	{
		"Envoy, refused", `[2016-04-15T20:17:00.310Z] "GET / HTTP/1.1" 429 RL 0 18 1 - "192.0.2.1" "-" "cc21d9b0" "shop.example" "-"`,
		"envoy 192.0.2.1 2016-04-15T20:17:00.31Z GET / | | | | 429 shop.example",
	},
	{
		"Envoy, list", `[2016-04-15T20:17:00.310Z] "GET /a HTTP/1.1" 200 - 0 5 2 1 "203.0.113.9, 2001:DB8::1" "curl/8" "i" "h" "10.0.2.1:80"`,
		"envoy 2001:db8::1 2016-04-15T20:17:00.31Z GET /a | | | curl/8 | 200 h",
	},
	{"Envoy, no client", `[2016-04-15T20:17:00.310Z] "GET /a HTTP/1.1" 200 - 0 5 2 1 "-" "curl/8" "i" "h" "10.0.2.1:80"`, "nameless"},
	{"Envoy, no address", `[2016-04-15T20:17:00.310Z] "GET /a HTTP/1.1" 200 - 0 5 2 1 "unknown" "curl/8" "i" "h" "10.0.2.1:80"`, "nameless"},
	{"Envoy, no request", `[2016-04-15T20:17:00.310Z] "- - HTTP/1.1" 400 DPE 0 11 0 - "-" "-" "-" "-" "-"`, ""},
	{"Envoy, cut off", `[2016-04-15T20:17:00.310Z] "GET /a HTT`, ""},
	{
		"Istio", `[2020-11-25T21:26:18.409Z] "GET /status/418 HTTP/1.1" 418 - via_upstream - "-" 0 135 4 4 "192.0.2.1" "curl/7.73.0" "84961386" "httpbin:8000" "127.0.0.1:80" inbound|8000|| 127.0.0.1:41854 10.44.1.27:80 10.44.1.23:37652 outbound_.8000_._.httpbin default`,
		"envoy 192.0.2.1 2020-11-25T21:26:18.409Z GET /status/418 | | | curl/7.73.0 | 418 httpbin:8000",
	},
	{
		"Envoy Gateway", `{"start_time":"2024-01-02T03:04:05.678Z","method":"GET","x-envoy-origin-path":"/a?b","protocol":"HTTP/1.1","response_code":"200","response_flags":"-","x-forwarded-for":"10.0.0.1","user-agent":"curl/8",":authority":"shop.example","downstream_remote_address":"192.0.2.1:38176"}`,
		"json 192.0.2.1 2024-01-02T03:04:05.678Z GET /a | b | | curl/8 | 200 shop.example",
	},

	{
		"HAProxy", `Feb  6 12:14:14 localhost haproxy[14389]: 192.0.2.1:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html?a HTTP/1.1"`,
		"haproxy 192.0.2.1 2009-02-06T12:14:14.655Z GET /index.html | a | | | 200",
	},
	{
		"HAProxy, no syslog", `192.0.2.1:33317 [06/Feb/2009:12:14:14.655] http-in~ static/srv1 10/0/30/69/+109 200 +2750 - - ---- 1/1/1/1/0 0/0 "GET /index.html HTTP/1.1"`,
		"haproxy 192.0.2.1 2009-02-06T12:14:14.655Z GET /index.html | | | | 200",
	},
	{
		"HAProxy, RFC 5424", `<134>1 2009-02-06T12:14:14.655123+00:00 lb1 haproxy 14389 - - 2001:db8::7:1:33317 [06/Feb/2009:12:14:14.655] http-in static/<NOSRV> 0/-1/-1/-1/0 503 212 - - SC-- 1/1/0/0/0 0/0 "GET https://shop.example:8443/a HTTP/2.0"`,
		"haproxy 2001:db8::7:1 2009-02-06T12:14:14.655Z GET /a | | | | 503 shop.example:8443",
	},
	{
		"HAProxy, v4 in v6", `::ffff:192.0.2.1:33317 [06/Feb/2009:12:14:14.655] in b/s 0/0/0/1/1 200 212 - - ---- 1/1/0/0/0 0/0 "GET /a HTTP/1.1" 0/0/0/0/0 shop.example/TLSv1.3/TLS_AES_256_GCM_SHA384`,
		"haproxy 192.0.2.1 2009-02-06T12:14:14.655Z GET /a | | | | 200",
	},
	{
		"HAProxy, socket", `unix:1 [06/Feb/2009:12:14:14.655] in b/s 0/0/0/1/1 200 212 - - ---- 1/1/0/0/0 0/0 "GET /a HTTP/1.1"`,
		"haproxy unix: 2009-02-06T12:14:14.655Z GET /a | | | | 200",
	},
	{
		"HAProxy, aborted", `192.0.2.1:33317 [06/Feb/2009:12:14:14.655] in b/s -1/-1/-1/-1/5 -1 0 - - CR-- 1/1/0/0/0 0/0 "GET /a HTTP/1.1"`,
		"haproxy 192.0.2.1 2009-02-06T12:14:14.655Z GET /a | | | | 0",
	},
	{"HAProxy, bad request", `192.0.2.1:33317 [06/Feb/2009:12:14:14.655] in in/<NOSRV> -1/-1/-1/-1/0 400 187 - - PR-- 1/1/0/0/0 0/0 "<BADREQ>"`, ""},
	{"HAProxy, TCP", `192.0.2.1:33313 [06/Feb/2009:12:12:51.443] fnt bck/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0`, ""},
	{"HAProxy, no port", `192.0.2.1 [06/Feb/2009:12:14:14.655] in b/s 0/0/0/1/1 200 212 - - ---- 1/1/0/0/0 0/0 "GET /a HTTP/1.1"`, ""},

	{
		"ALB", `http 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.0.2.1:2817 10.0.0.1:80 0.000 0.001 0.000 200 200 34 366 "GET http://www.example.com:80/a?b HTTP/1.1" "curl/7.46.0" - - arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 "Root=1-58337262-36d228ad5d99923122bbe354" "-" "-" 0 2018-07-02T22:22:48.364000Z "forward" "-" "-" "10.0.0.1:80" "200" "-" "-"`,
		"alb 192.0.2.1 2018-07-02T22:22:48.364Z GET /a | b | | curl/7.46.0 | 200 www.example.com",
	},
	{
		"ALB, TLS", `h2 2018-07-02T22:23:00.186641Z app/lb/50 [2001:db8::1]:2817 - -1 -1 -1 502 - 34 366 "GET https://www.example.com:443/ HTTP/2.0" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn "Root=1" "www.example.com" "arn" 1 2018-07-02T22:22:48.364000Z "redirect"`,
		"alb 2001:db8::1 2018-07-02T22:22:48.364Z GET / | | | curl/7.46.0 | 502 www.example.com",
	},
	{
		"ALB, another port", `https 2018-07-02T22:23:00.186641Z app/lb/50 192.0.2.1:2817 - -1 -1 -1 502 - 34 366 "GET https://www.example.com:8443/ HTTP/1.1" "c`,
		"alb 192.0.2.1 2018-07-02T22:23:00.186641Z GET / | | | c | 502 www.example.com:8443",
	},
	{"ALB, no request", `http 2018-11-30T22:23:00.186641Z app/lb/50 192.0.2.1:2817 - -1 -1 -1 400 - 0 288 "- http://lb:80- -" "-" - - - "-" "-" "-" - 2018-11-30T22:22:48.364000Z "-" "-" "-"`, ""},
	{"ALB, cut off", `http 2018-11-30T22:23:00.186641Z app/lb/50 192.0.2.1:28`, ""},

	{
		"Cloudflare", `{"ClientIP":"2001:db8::1","ClientRequestHost":"shop.example","ClientRequestMethod":"GET","ClientRequestURI":"/a?b","ClientRequestUserAgent":"curl/8","EdgeEndTimestamp":"2024-01-02T03:04:06Z","EdgeResponseBytes":4711,"EdgeResponseStatus":200,"EdgeStartTimestamp":"2024-01-02T03:04:05Z","RayID":"81b"}`,
		"cloudflare 2001:db8::1 2024-01-02T03:04:05Z GET /a | b | | curl/8 | 200 shop.example",
	},
	{
		"Cloudflare, nanoseconds", `{"ClientIP":"192.0.2.1","ClientRequestMethod":"GET","ClientRequestPath":"/a","EdgeResponseStatus":429,"EdgeStartTimestamp":1704164645123456789}`,
		"cloudflare 192.0.2.1 2024-01-02T03:04:05.123456Z GET /a | | | | 429",
	},
	{"JSON behind Cloudflare", `{"ts":1431857103,"remote_ip":"192.0.2.1","method":"GET","path":"/a"}`, "json 192.0.2.1 2015-05-17T10:05:03Z GET /a | | | | 0"},
	{"combined", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5 "-" "x"`, "common 192.0.2.1 2015-05-17T10:05:03Z GET /a | | | x | 200"},
}

func TestFormats(t *testing.T) {
	p := Parser{Parts: User | Headers}
	for _, test := range formatTests {
		t.Run(test.name, func(t *testing.T) {
			for _, before := range []string{"", formatTests[0].line, formatTests[3].line} { // the line parsed before must not matter
				p.Parse([]byte(before))
				got := ""
				if r, ok := p.Parse([]byte(test.line)); ok {
					got = fmt.Sprintf("%s %s", r.Format.ID(), describe(r))
					if len(r.Server) > 0 {
						got += " " + string(r.Server)
					}
				} else if p.Nameless() {
					got = "nameless"
				}
				if got != test.want {
					t.Errorf("%s\nread %s,\nwant %s", test.line, got, test.want)
				}
			}
		})
	}
}
