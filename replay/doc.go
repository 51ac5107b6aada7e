// Package replay answers what a limit or a file of rules would have done to the
// requests of an access log.
//
//	limit, err := replay.ParseLimit("100/min by ip", stint.FixedWindow, 0)
//	input, err := accesslog.File("access.log.gz")
//	report, err := replay.Run(ctx, replay.Options{Limit: limit, Reorder: replay.DefaultReorder}, []accesslog.Input{input})
//	err = report.WriteText(os.Stdout)
//
// # What is read
//
// Each line is read by itself, so one log may mix them:
//
//   - the common and combined format of Apache and nginx, also with the virtual
//     host in front;
//   - Envoy's default format and Istio's; the client is the last address of
//     X-Forwarded-For, since they log no other;
//   - HAProxy's HTTP log, with what syslog wrote in front of it;
//   - the log of an AWS Application Load Balancer;
//   - a JSON object with the usual field names of nginx, Caddy and Traefik, or those of
//     Cloudflare's Logpush.
//
// The report says which formats were met.
//
// Inputs that begin with the magic bytes of gzip are unpacked. A line is parsed
// when address, time, method and path can be read, whatever follows: lines that are
// cut off, quotes that are missing, bytes that are not UTF-8. The address may be a
// host name, where the server looked names up. What cannot be parsed, empty lines
// among it, is counted, the first three are shown, and the replay goes on. A line
// longer than 4 MiB is read as far as that.
//
// # When a line is decided
//
// At its own time, by its own time zone (UTC where none is given). Servers write a
// line when the answer is sent, so logs are not in order of time: lines are put in
// order of time, then of the log, as long as they come within Options.Reorder of
// the newest line before them. One that is older still is decided at the edge of
// that window, and counted as late. Several inputs are one log, in the given order.
//
// # What a line can supply to rules
//
// Method, path, query, the client's address, and the headers User-Agent, Referer
// and Host as far as the line holds them. Other headers are missing, and a rule that
// needs one matches nothing. The authenticated user is no header: only a limit
// given as text can count by it. The size of a request's body is not known, so what
// depends on it costs the default; a request that names a cost which is none would be
// answered 400, and is counted as denied, see [Report].BadCosts.
//
// Limits that count responses are settled by the status of the line at the time of
// the line, or by that of the refusal where the line is denied. Loads are unknown:
// elastic limits that ask for one lend nothing. What is said of another algorithm is
// what the same rules would do with that algorithm in each of their limits.
package replay
