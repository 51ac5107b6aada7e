package accesslog

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// pack returns text compressed with gzip.
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

// TestLines reads lines of all lengths and endings, compressed or not.
func TestLines(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for _, test := range []struct {
		name, data string
		want       []string
		damaged    bool
	}{
		{"none", "", nil, false},
		{"one", "a\n", []string{"a"}, false},
		{"without an end", "a\nb", []string{"a", "b"}, false},
		{"empty ones", "\n\na\n\n", []string{"", "", "a", ""}, false},
		{"carriage returns", "a\r\n\r\nb\r\n\r", []string{"a", "", "b", ""}, false},
		{"longer than a block", long[:blockSize+7] + "\nb\n", []string{long[:blockSize+7], "b"}, false},
		{"as long as can be", long + "\nb\n", []string{long, "b"}, false},
		{"too long", long + long + "xyz\nb\n", []string{long, "b"}, false},
		{"too long at the end", "a\n" + long + long + "xyz", []string{"a", long}, false},
		{"packed", pack("a\nb\n"), []string{"a", "b"}, false},
		{"packed in two parts", pack("a\nb") + pack("c\n"), []string{"a", "bc"}, false},
		{"packed, cut off", pack("a\nb\n" + strings.Repeat("z\n", 9))[:14], nil, true},
		{"packed, garbage behind", pack("a\n") + "garbage", []string{"a"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, err := Open(Reader("test", iotest.HalfReader(strings.NewReader(test.data))), nil, func(int) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for {
				line, more := l.Next()
				if !more {
					break
				}
				got = append(got, string(line))
			}
			if test.damaged != l.Damaged() || !test.damaged && l.Err() != nil {
				t.Errorf("ended with %v", l.Err())
			}
			if test.want == nil && test.damaged {
				return // the data before the damage
			}
			if len(got) != len(test.want) {
				t.Fatalf("%d lines, want %d: %.100q", len(got), len(test.want), got)
			}
			for i := range got {
				if got[i] != test.want[i] {
					t.Errorf("line %d: %d bytes, want %d", i, len(got[i]), len(test.want[i]))
				}
			}
		})
	}
}
