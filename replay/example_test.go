package replay_test

import (
	"context"
	"fmt"
	"strings"

	"stint"
	"stint/replay"
	"stint/replay/accesslog"
)

func ExampleRun() {
	log := strings.NewReader(`192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 512
192.0.2.1 - - [17/May/2015:10:05:07 +0000] "GET /login HTTP/1.1" 200 512
192.0.2.7 - - [17/May/2015:10:05:05 +0000] "GET / HTTP/1.1" 200 512
192.0.2.1 - - [17/May/2015:10:05:04 +0000] "GET /style.css HTTP/1.1" 200 512
`)
	limit, err := replay.ParseLimit("2/min by ip", stint.FixedWindow, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	options := replay.Options{Limit: limit, Reorder: replay.DefaultReorder}
	report, err := replay.Run(context.Background(), options, []accesslog.Input{accesslog.Reader("access.log", log)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Headline())
	for _, a := range report.Algorithms {
		fmt.Printf("%-14s  allowed %d, denied %d\n", a.Algorithm, a.Allowed, a.Denied)
	}
	// Output:
	// With 2/min by ip (fixed_window), 1 of 4 requests (25.0 %) would have been denied, from 1 of 2 clients.
	// fixed_window    allowed 3, denied 1
	// token_bucket    allowed 3, denied 1
	// leaky_bucket    allowed 2, denied 2
	// sliding_log     allowed 3, denied 1
	// sliding_window  allowed 3, denied 1
}
