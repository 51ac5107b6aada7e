// Package replay computes what a limit or a file of rules would have done to the requests of an
// access log.
//
//	limit, err := replay.ParseLimit("100/min by ip", stint.FixedWindow, 0)
//	input, err := accesslog.File("access.log.gz")
//	report, err := replay.Run(ctx, replay.Options{Limit: limit, Reorder: replay.DefaultReorder}, []accesslog.Input{input})
//	err = report.WriteText(os.Stdout)
//
// # Formats
//
// Each line is parsed by itself, so one log may mix formats:
//
//   - the common and combined format of Apache and nginx, optionally with the virtual host as the
//     first field;
//   - Envoy's default format and Istio's; the client is the last address of X-Forwarded-For, the
//     only client address in these formats;
//   - HAProxy's HTTP log, optionally with a syslog header;
//   - the log of an AWS Application Load Balancer;
//   - a JSON object with the usual field names of nginx, Caddy and Traefik, or those of
//     Cloudflare's Logpush.
//
// The report lists the formats that occurred.
//
// Inputs that begin with the magic bytes of gzip are decompressed. A line is parsed if its address,
// time, method and path can be read, even if the rest is truncated, lacks quotes or is not UTF-8.
// The address may be a host name. Lines that cannot be parsed, including empty ones, are counted and
// skipped; the report shows the first three. Only the first 4 MiB of a line are read.
//
// # Order of lines
//
// A line is decided at its own time, in its own time zone (UTC if it has none). Servers write a
// line when they send the answer, so logs are not ordered by time. Lines are sorted by time, then by
// their place in the log, if they are at most Options.Reorder older than the newest line before
// them. An older line is decided at the edge of that window and counted as late. Several inputs form
// one log, in the given order.
//
// # Data for rules
//
// A line has method, path, query, the client's address, and the headers User-Agent, Referer and Host
// if the format contains them. Other headers are missing, and rules that need one do not match. The
// authenticated user is not a header: only a limit given as text can count by it. The size of the
// request body is unknown, so costs by size have their default. A request with an invalid cost would
// be answered 400; it counts as denied, see [Report].BadCosts.
//
// Limits that count responses are settled with the status of the line at the time of the line, or
// with the status of the denial if the line is denied. Loads are unknown: elastic limits that depend
// on a load lend nothing. The results for another algorithm are those of the same rules with that
// algorithm in all of their limits.
package replay
