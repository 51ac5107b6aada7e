package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"stint"
	"stint/internal/testkit"
	"stint/internal/text"
)

// TestReportFiles compares the text and JSON reports with golden files.
func TestReportFiles(t *testing.T) {
	limit, err := ParseLimit("2/min by ip+path", stint.TokenBucket, 3)
	if err != nil {
		t.Fatal(err)
	}
	report := replayFile(t, "testdata/mixed.log", Options{Limit: limit, Reorder: DefaultReorder})
	var text, object bytes.Buffer
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if err := report.WriteJSON(&object); err != nil {
		t.Fatal(err)
	}
	testkit.CheckGolden(t, "testdata/mixed.txt", text.String())
	testkit.CheckGolden(t, "testdata/mixed.json", object.String())
}

// TestJSONFields checks the stable interface: these fields come first, in this order, and their
// objects have only the documented members.
func TestJSONFields(t *testing.T) {
	report := replayFile(t, "testdata/apache_access.log.gz", Options{Limit: testLimit(t, "10/min by ip"), Reorder: DefaultReorder})
	var b bytes.Buffer
	if err := report.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var fields []string
	d := json.NewDecoder(bytes.NewReader(b.Bytes()))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		fields = append(fields, fmt.Sprint(name))
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	const want = "lines parsed unparseable late allowed denied rules clients algorithms"
	if got := strings.Join(fields[:9], " "); got != want {
		t.Errorf("fields %s, want %s", got, want)
	}
	var strict struct {
		Rules      []map[string]any `json:"rules"`
		Clients    []map[string]any `json:"clients"`
		Algorithms []map[string]any `json:"algorithms"`
	}
	if err := json.Unmarshal(b.Bytes(), &strict); err != nil {
		t.Fatal(err)
	}
	for first, list := range map[string][]map[string]any{"rule": strict.Rules, "key": strict.Clients, "algorithm": strict.Algorithms} {
		for _, object := range list {
			for _, field := range []string{first, "allowed", "denied"} {
				if _, ok := object[field]; !ok || len(object) != 3 {
					t.Fatalf("%v, want %s, allowed, denied", object, first)
				}
			}
		}
	}
	if len(strict.Rules) != 1 || strict.Rules[0]["rule"] != "10/min by ip" || len(strict.Clients) != 20 || len(strict.Algorithms) != 5 {
		t.Errorf("%v, %d clients, %d algorithms", strict.Rules, len(strict.Clients), len(strict.Algorithms))
	}
}

// TestEmptyReport checks that an empty report has all documented lists in JSON, and a headline.
func TestEmptyReport(t *testing.T) {
	report := replayFile(t, os.DevNull, Options{Limit: testLimit(t, "10/min by ip"), Algorithms: []stint.Algorithm{}})
	var b bytes.Buffer
	if err := report.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "null") || strings.Contains(b.String(), "0001-01-01") {
		t.Error(b.String())
	}
	b.Reset()
	if err := report.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	const want = "With 10/min by ip (fixed_window) nothing was decided: none of 0 lines could be parsed.\n"
	if !strings.HasPrefix(b.String(), want) {
		t.Error(b.String())
	}
	if err := report.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
}

// TestTextFits checks that the text report stays within its width for any log.
func TestTextFits(t *testing.T) {
	var log strings.Builder
	for i := range 300 {
		fmt.Fprintf(&log, "192.0.2.%d - - [17/May/2015:10:05:%02d +0000] \"GET /%s%d HTTP/1.1\" 429 5\n", i%9, i%60, strings.Repeat("é\x1b[31m\x00", 60), i%3)
	}
	log.WriteString(strings.Repeat("\x1b]0;evil\a\u202e", 90) + "\n")
	name := t.TempDir() + "/" + strings.Repeat("long", 40)
	if err := os.WriteFile(name, []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	report := replayFile(t, name, Options{Limit: testLimit(t, "1000000/365d by path+ip"), Reorder: DefaultReorder})
	report.Denied, report.Late = 1234567890123, 999
	report.finish(&Options{Reorder: DefaultReorder})
	var b bytes.Buffer
	if err := report.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(line) - 1; n > textWidth {
			t.Errorf("%d columns: %s", n, line)
		}
		if strings.ContainsAny(line, "\x1b\x00\a\u202e") {
			t.Errorf("control characters: %q", line)
		}
	}
	for _, want := range []string{"300 requests had already been answered with 429", "raise --reorder"} {
		if !strings.Contains(strings.Join(strings.Fields(b.String()), " "), want) {
			t.Errorf("nothing says %q:\n%s", want, b.String())
		}
	}
}

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		span(time.Minute): "1m", span(15 * time.Minute): "15m", span(time.Hour): "1h", span(90 * time.Minute): "1h30m",
		span(90 * time.Second): "1m30s", span(24 * time.Hour): "1d", span(10 * time.Millisecond): "10ms", span(10 * time.Second): "10s",
		text.RoughDuration(83*time.Hour + 59*time.Minute): "3 d 11 h", text.RoughDuration(61 * time.Second): "1 min 1 s", text.RoughDuration(0): "0 s", text.RoughDuration(3 * time.Hour): "3 h 0 min",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
