package recordapi

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"stint/internal/testkit"
	"stint/records/transfer"
)

// Decoding any body, path or import takes little memory per byte.
func TestDecodersAreFrugal(t *testing.T) {
	posted := func(body []byte) *http.Request {
		return &http.Request{Method: "PUT", URL: new(url.URL), Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: -1}
	}
	t.Run("record", func(t *testing.T) {
		seeds := [][]byte{[]byte(`{"subject":"user=42","kind":"user","groups":["a","b"]}`), []byte(`{"subject":"user=42","rule":"api/user","requests":10,"per":"1m"}`)}
		for _, piece := range []string{`{"subject":"`, `"`, `\u0041`, `"a",`, `{},`, `[`, "1"} {
			for _, n := range []int{10, 2000, 30_000} {
				for _, before := range []string{"", `{"groups":[`, `{"subject":"`, `{"requests":`} {
					seeds = append(seeds, []byte(before+strings.Repeat(piece, n)))
				}
			}
		}
		for kind := range filters {
			testkit.Frugal(t, seeds, func(input []byte) {
				if _, f := read(posted(input), kind); f != nil {
					f.Append(nil)
				}
			})
		}
	})
	t.Run("path", func(t *testing.T) {
		api := &api{}
		seeds := [][]byte{[]byte("user=42"), []byte("user=42/api%2Fuser")}
		for _, piece := range []string{"%41", "%", "a", "/"} {
			seeds = append(seeds, []byte(strings.Repeat(piece, 1000)), []byte("user="+strings.Repeat(piece, 1000)))
		}
		testkit.Frugal(t, seeds, func(input []byte) {
			for _, c := range []collection{collections["subjects"], collections["overrides"], collections["bans"]} {
				if _, f := api.nameOf(c, string(input)); f != nil {
					f.Append(nil)
				}
			}
		})
	})
	t.Run("import", func(t *testing.T) {
		seeds := [][]byte{
			[]byte(`{"record":"ban","subject":"user=42"}` + "\n" + `{"record":"end","count":1}` + "\n"),
			[]byte("record,subject,groups\nsubject,user=42,\"a\nb\"\nend,1,\n"),
		}
		for _, piece := range []string{`{"record":"ban"}` + "\n", "\n", ",", `"`, `"",`, "a", "\r", "ban,x\n", `{"record":"subject","groups":["a","b"]}` + "\n", `"a",`} {
			for _, n := range []int{10, 3000, 50_000} {
				for _, before := range []string{"", "record,subject\n", `{"record":"subject","groups":[`} {
					seeds = append(seeds, []byte(before+strings.Repeat(piece, n)))
				}
			}
		}
		for _, format := range []transfer.Format{transfer.JSONLines, transfer.CSV} {
			testkit.Frugal(t, seeds, func(input []byte) {
				for _, err := range transfer.Read(bytes.NewReader(input), format) {
					if err != nil {
						break
					}
				}
			})
		}
	})
}
