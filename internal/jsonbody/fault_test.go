package jsonbody

import (
	"encoding/json"
	"net/http/httptest"
	"testing"
)

// The envelope of a fault.
func TestFault(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault *Fault
		want  string
	}{
		{"of the whole", Bad("", "empty", "send one"), `{"error":{"code":"bad_request","message":"empty; send one","context":{}}}`},
		{"of a field", Bad("limit", "empty", "send one"), `{"error":{"code":"bad_request","message":"limit: empty; send one","context":{"field":"limit"}}}`},
		{
			"of a byte, the first too", BadAt(0, "no JSON", "send JSON").In("key").InElement(2).In("list"),
			`{"error":{"code":"bad_request","message":"list[2].key: no JSON; send JSON","context":{"field":"list[2].key","offset":0}}}`,
		},
		{"without a hint", &Fault{Status: 404, Code: NotFound, Problem: "gone"}, `{"error":{"code":"not_found","message":"gone","context":{}}}`},
		{
			"with a context", &Fault{Status: 412, Code: Precondition, Problem: "old", Context: map[string]string{"hash": "1f"}},
			`{"error":{"code":"precondition_failed","message":"old","context":{"hash":"1f"}}}`,
		},
		{
			"what JSON escapes", Bad("", "a \"b\\c\"\n\x7f\xff é", ""),
			`{"error":{"code":"bad_request","message":"a \"b\\c\"\u000a\u007f` + "\uFFFD" + ` é","context":{}}}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			test.fault.Write(w)
			if got := w.Body.String(); got != test.want+"\n" {
				t.Errorf("\n got %swant %s", got, test.want)
			}
			if !json.Valid(w.Body.Bytes()) || w.Code != test.fault.Status || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("answered %d %v", w.Code, w.Header())
			}
		})
	}
	var none *Fault
	if none.In("field").InElement(1) != nil {
		t.Error("the fault of nothing is one")
	}
}

// If the body did not arrive or is too large, the connection ends.
func TestFaultClosesConnections(t *testing.T) {
	for status, want := range map[int]string{400: "", 408: "close", 413: "close", 503: ""} {
		w := httptest.NewRecorder()
		(&Fault{Status: status}).Write(w)
		if got := w.Header().Get("Connection"); got != want {
			t.Errorf("%d: Connection: %q", status, got)
		}
	}
}
