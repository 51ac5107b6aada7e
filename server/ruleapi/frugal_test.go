package ruleapi

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"stint/internal/jsonbody"
	"stint/internal/testkit"
)

// Decoding any body or query takes little memory per byte. Package book reads imports.
func TestDecodersAreFrugal(t *testing.T) {
	t.Run("rule", func(t *testing.T) {
		seeds := [][]byte{[]byte(seven), []byte(eight)}
		for _, piece := range []string{`{"id":"`, `"`, `\u0041`, `{"requests":1`, `{},`, `"a":`, `[`} {
			for _, n := range []int{10, 700, 2000} {
				seeds = append(seeds, []byte(strings.Repeat(piece, n)), []byte(`{"id":"`+strings.Repeat(piece, n)), []byte(`{"url":"`+strings.Repeat(piece, n)+`"}`))
			}
		}
		testkit.Frugal(t, seeds, func(input []byte) {
			r := &http.Request{Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(input)), ContentLength: -1}
			if _, f := new(api).readRule(r, "7"); f != nil {
				f.Append(nil)
			}
		})
	})
	t.Run("query", func(t *testing.T) {
		seeds := [][]byte{[]byte("after=7&limit=5&uid=all&domain=shop")}
		for _, piece := range []string{"&", "a&", "=&", "a=%41&", "%41", "uid=a&"} {
			for _, n := range []int{10, 31, 32, 4000, 60_000} {
				seeds = append(seeds, []byte(strings.Repeat(piece, n)), []byte("uid="+strings.Repeat(piece, n)))
			}
		}
		testkit.Frugal(t, seeds, func(input []byte) {
			if _, f := jsonbody.Query(&http.Request{URL: &url.URL{RawQuery: string(input)}}, maxText, "after", "limit", "uid", "domain"); f != nil {
				f.Append(nil)
			}
		})
	})
}
