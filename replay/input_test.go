package replay

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"stint"
	"stint/replay/accesslog"
)

func pack(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		panic(err) // writing to a buffer never fails
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.String()
}

func testLimit(t testing.TB, text string) *Limit {
	t.Helper()
	l, err := ParseLimit(text, stint.FixedWindow, 0)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const testLine = `192.0.2.%d - - [17/May/2015:10:05:%02d +0000] "GET /a HTTP/1.1" 200 5`

// TestSeveralInputs reads files as one log in the given order, compressed or not, and checks the
// reported progress.
func TestSeveralInputs(t *testing.T) {
	dir := t.TempDir()
	var inputs []accesslog.Input
	total := int64(0)
	for i, data := range []string{
		"\xef\xbb\xbf" + fmt.Sprintf(testLine, 1, 1) + "\n" + fmt.Sprintf(testLine, 1, 9),
		pack(fmt.Sprintf(testLine, 1, 5) + "\r\n\n"),
	} {
		name := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		in, err := accesslog.File(name)
		if err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, in)
		total += int64(len(data))
	}
	read, of := int64(0), int64(0)
	report, err := Run(context.Background(), Options{
		Limit: testLimit(t, "2/min by ip"), Reorder: DefaultReorder,
		Progress: func(r, t int64) { read, of = r, t },
	}, inputs)
	if err != nil {
		t.Fatal(err)
	}
	if report.Lines != 4 || report.Parsed != 3 || report.Unparseable != 1 || report.Allowed != 2 || report.Denied != 1 {
		t.Errorf("%+v", report)
	}
	if read != total || of != total {
		t.Errorf("progress ended at %d of %d, want %d", read, of, total)
	}
	if s := report.Samples[0]; s.Line != 2 || s.Input != inputs[1].Name || s.Text != "" {
		t.Errorf("sample %+v", s)
	}
}

func TestInputErrors(t *testing.T) {
	dir := t.TempDir()
	zstd := filepath.Join(dir, "log.zst")
	if err := os.WriteFile(zstd, []byte("\x28\xb5\x2f\xfd rest"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("disk on fire")
	for _, test := range []struct {
		name, problem string
		input         func() (accesslog.Input, error)
	}{
		{"missing", "nowhere.log: no such file or directory", func() (accesslog.Input, error) { return accesslog.File("nowhere.log") }},
		{"folder", dir + ": is a folder", func() (accesslog.Input, error) { return accesslog.File(dir) }},
		{"zstd", zstd + ": is packed with zstd", func() (accesslog.Input, error) { return accesslog.File(zstd) }},
		{"cannot open", "x: cannot be opened: disk on fire", func() (accesslog.Input, error) {
			return accesslog.Input{Name: "x", Open: func() (io.ReadCloser, error) { return nil, broken }}, nil
		}},
		{"cannot read", "x: cannot be read: disk on fire", func() (accesslog.Input, error) { return accesslog.Reader("x", iotest.ErrReader(broken)), nil }},
		{"cannot read on", "x: cannot be read: disk on fire", func() (accesslog.Input, error) {
			return accesslog.Reader("x", io.MultiReader(strings.NewReader("a\nb\n"), iotest.ErrReader(broken))), nil
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			in, err := test.input()
			if err == nil {
				_, err = Run(context.Background(), Options{Limit: testLimit(t, "1/s")}, []accesslog.Input{in})
			}
			var input *accesslog.InputError
			if !errors.As(err, &input) || err.Error() != test.problem || input.Hint == "" {
				t.Errorf("%v, want %s, with a hint", err, test.problem)
			}
		})
	}
}

// TestDamagedGzip checks that the lines before the damage are counted and the damage is noted.
func TestDamagedGzip(t *testing.T) {
	var log strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&log, testLine+"\n", i%250, i%60)
	}
	packed := pack(log.String())
	report, err := Run(context.Background(), Options{Limit: testLimit(t, "1/s")},
		[]accesslog.Input{accesslog.Reader("a.gz", strings.NewReader(packed[:len(packed)/2])), accesslog.Reader("b", strings.NewReader(fmt.Sprintf(testLine, 1, 1)))})
	if err != nil {
		t.Fatal(err)
	}
	if report.Parsed < 100 || report.Parsed > 4999 || len(report.Notes) == 0 || !strings.Contains(report.Notes[0], "a.gz ends in damaged gzip data") {
		t.Errorf("%d parsed, notes %q", report.Parsed, report.Notes)
	}
}

func TestRunStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	endless := repeat{[]byte("a line without an end")}
	_, err := Run(ctx, Options{Limit: testLimit(t, "1/s"), Progress: func(read, _ int64) {
		if read > 100_000 {
			cancel()
		}
	}}, []accesslog.Input{accesslog.Reader("endless", endless)})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

// TestRunInterrupted ends a replay after a block: the report has the lines until there, without the line that
// the block cuts, and says which part that is. The next input is not opened.
func TestRunInterrupted(t *testing.T) {
	log := strings.Repeat(fmt.Sprintf(testLine+"\n", 1, 1), 20_000)
	input := accesslog.Reader("log", strings.NewReader(log))
	input.Size = int64(len(log))
	next := accesslog.Input{Name: "next", Size: 1, Open: func() (io.ReadCloser, error) {
		t.Error("the next input is opened")
		return nil, io.EOF
	}}
	ctx, cancel := context.WithCancel(t.Context())
	blocks := 0
	report, err := Run(ctx, Options{Limit: testLimit(t, "1/s"), Progress: func(int64, int64) {
		if blocks++; blocks == 2 {
			cancel()
		}
	}}, []accesslog.Input{input, next})
	if !errors.Is(err, context.Canceled) || report == nil {
		t.Fatalf("it returned %v, %v", report, err)
	}
	if report.Lines == 0 || report.Lines >= 20_000 || report.Lines != report.Parsed || report.Denied != report.Parsed-1 || !report.Interrupted {
		t.Errorf("the report has %d lines, %d parsed, %d denied, interrupted %v", report.Lines, report.Parsed, report.Denied, report.Interrupted)
	}
	if len(report.Notes) == 0 || !strings.HasPrefix(report.Notes[0], "Interrupted: ") || !strings.Contains(report.Notes[0], "% of the input") {
		t.Errorf("the notes are %q", report.Notes)
	}
}

// TestReadUntil: a read that waits for ever ends with the context.
func TestReadUntil(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	defer writer.Close()
	go func() {
		_, _ = fmt.Fprintf(writer, testLine+"\n", 1, 1)
		cancel()
	}()
	report, err := Run(ctx, Options{Limit: testLimit(t, "1/s")}, []accesslog.Input{accesslog.Reader("pipe", reader)})
	if !errors.Is(err, context.Canceled) || report == nil {
		t.Errorf("it returned %v, %v", report, err)
	}
}

// repeat is an endless reader of the same bytes.
type repeat struct{ bytes []byte }

func (r repeat) Read(p []byte) (int, error) { return copy(p, r.bytes), nil }

func TestOptionsRefused(t *testing.T) {
	for name, opts := range map[string]Options{
		"nothing":         {},
		"negative window": {Limit: testLimit(t, "1/s"), Reorder: -1},
		"unlimited":       {Limit: testLimit(t, "1/s"), Algorithms: []stint.Algorithm{stint.Unlimited}},
		"twice":           {Limit: testLimit(t, "1/s"), Algorithms: []stint.Algorithm{stint.SlidingLog, stint.SlidingLog}},
	} {
		if _, err := Run(context.Background(), opts, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
