package replay

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stint"
	"stint/internal/testkit/programs"
	"stint/replay/accesslog"
)

// browse opens a page in Chromium and returns the resulting document and the output on the console.
func browse(t *testing.T, page []byte) (dom, console string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, page, 0o600); err != nil {
		t.Fatal(err)
	}
	return programs.Browse(t, "file://"+file)
}

// TestPage opens the page in a browser: the charts are drawn, nothing is loaded from elsewhere,
// there are no errors, and text of the log stays text.
func TestPage(t *testing.T) {
	t.Parallel() // most of the time is the browser's
	const evil = `</script><script>document.title='evil'</script><img/src=x:y/onerror=document.title='evil'>`
	var log strings.Builder
	for i := range 600 {
		fmt.Fprintf(&log, "192.0.2.%d - - [17/May/2015:10:%02d:%02d +0000] \"GET /%s HTTP/1.1\" 200 5\n", i%7, i/60, i%60, evil)
	}
	log.WriteString(evil + "\n")
	report, err := Run(context.Background(), Options{Limit: testLimit(t, "5/min by path+ip"), Reorder: DefaultReorder, Sweep: true},
		[]accesslog.Input{accesslog.Reader(evil, strings.NewReader(log.String()))})
	if err != nil {
		t.Fatal(err)
	}
	if report.Parsed != 600 || report.Denied == 0 || len(report.Samples) != 1 {
		t.Fatalf("%d parsed, %d denied", report.Parsed, report.Denied)
	}
	report.note("%s", evil)
	report.Limit += evil
	var page bytes.Buffer
	if err := report.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	dom, console := browse(t, page.Bytes())
	if console != "" {
		t.Errorf("the console says:\n%s", console)
	}
	if n := strings.Count(dom, "<canvas"); n != 4 {
		t.Errorf("%d charts, want 4", n)
	}
	if strings.Contains(dom, "<title>evil") || strings.Contains(dom, "<img") {
		t.Error("text of the log became part of the page")
	}
	for _, want := range []string{
		"would have been denied, from 7 of 7 keys.", "The same under each algorithm", "sliding_window", "Which limit would deny how many keys?", "Limit per 1m", "as replayed",
		"Unparseable lines", "&lt;/script&gt;&lt;script&gt;",
	} {
		if !strings.Contains(dom+page.String(), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// TestPageOfNothing checks that a page without lines has no charts and no errors.
func TestPageOfNothing(t *testing.T) {
	t.Parallel() // most of the time is the browser's
	report := replayFile(t, os.DevNull, Options{Limit: testLimit(t, "1/s"), Algorithms: []stint.Algorithm{}})
	var page bytes.Buffer
	if err := report.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	dom, console := browse(t, page.Bytes())
	if console != "" || strings.Contains(dom, "<canvas") || !strings.Contains(dom, "nothing was decided") {
		t.Errorf("console %q, page:\n%s", console, dom)
	}
}

// TestPageLoadsNothing checks that the page has nothing that a browser would fetch.
func TestPageLoadsNothing(t *testing.T) {
	report := replayFile(t, "testdata/bursts.log", Options{Limit: testLimit(t, "10/min by ip"), Reorder: DefaultReorder})
	var page bytes.Buffer
	if err := report.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, word := range []string{" src=", " href=", "<link", "@import", "url(", "fetch(", "XMLHttpRequest", "WebSocket"} {
		if strings.Contains(text, word) {
			t.Errorf("the page holds %q", word)
		}
	}
	for _, want := range []string{"default-src 'none'", "The MIT License (MIT)", "Leon Sorokin"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not hold %q", want)
		}
	}
}
