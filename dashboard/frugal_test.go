package dashboard

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"stint/internal/testkit"
)

// Decoding any body of a login takes little memory per byte.
func TestDecodersAreFrugal(t *testing.T) {
	seeds := [][]byte{[]byte(`{"token":"stint_x"}`)}
	for _, piece := range []string{`{"token":"`, `"`, `\u0041`, `{},`, `[`, "1"} {
		for _, n := range []int{10, 1000, 30_000} {
			seeds = append(seeds, []byte(strings.Repeat(piece, n)), []byte(`{"token":"`+strings.Repeat(piece, n)))
		}
	}
	testkit.Frugal(t, seeds, func(input []byte) {
		r := &http.Request{Method: "POST", URL: new(url.URL), Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(input)), ContentLength: -1}
		if _, f := readToken(r); f != nil {
			f.Append(nil)
		}
	})
}
