package load

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"stint/internal/testkit"
)

// discard is a response that is not kept.
type discard struct{ header http.Header }

func (d discard) Header() http.Header       { return d.header }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// Setting a gauge takes little memory for each byte of any body.
func TestDecodersAreFrugal(t *testing.T) {
	const most = 1 << 20
	seeds := [][]byte{
		[]byte(`{"load":0.5,"ttl":"5s"}`),
		[]byte(`{"load":0.` + strings.Repeat("5", 5000) + `,"ttl":"5s"}`),
		[]byte(`{"load":0.` + strings.Repeat("5", most-30) + `,"ttl":"5s"}`),
		[]byte(`{"ttl":"` + strings.Repeat("5s", 500_000) + `"}`),
		[]byte(`{"` + strings.Repeat("x", most-20) + `"}`),
	}
	a := &API{Gauges: new(Gauges), Names: func() []string { return []string{"cpu"} }, MaxBody: most, Log: slog.New(slog.DiscardHandler)}
	testkit.Frugal(t, seeds, func(input []byte) {
		r := &http.Request{Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(input)), ContentLength: -1}
		r.SetPathValue("name", "cpu")
		a.Set(discard{http.Header{}}, r)
	})
}
