package factsapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stint/server/factsapi"
)

// An empty list is [] and not null.
func TestNoAlarms(t *testing.T) {
	handler := factsapi.NewAlarms(func() []string { return nil })
	for _, test := range []struct {
		method, target string
		status         int
		body           string
	}{
		{"GET", "/v1/alarms", http.StatusOK, `{"alarms":[]}`},
		{"GET", "/v1/alarms?n=1", http.StatusBadRequest, `unknown parameter`},
		{"PUT", "/v1/alarms", http.StatusMethodNotAllowed, `use GET, HEAD`},
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(test.method, test.target, nil))
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.body) {
			t.Errorf("%s %s: status %d: %s", test.method, test.target, w.Code, w.Body)
		}
	}
}
