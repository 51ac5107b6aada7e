package factsapi

import (
	"net/http"

	"stint/internal/jsonbody"
)

// AlarmsPath is the path of [NewAlarms].
const AlarmsPath = "/v1/alarms"

// alarmsAnswer is the answer of GET /v1/alarms.
type alarmsAnswer[A any] struct {
	Alarms []A `json:"alarms"`
}

// NewAlarms returns the handler of [AlarmsPath]: what is silently wrong, of which active returns a list.
// The caller must restrict access to it, with the role read.
func NewAlarms[A any](active func() []A) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			jsonbody.RefuseMethod(w, r, "GET", "HEAD")
			return
		}
		if _, f := jsonbody.Query(r, maxText); f != nil {
			f.Write(w)
			return
		}
		jsonbody.WriteJSON(w, http.StatusOK, alarmsAnswer[A]{append([]A{}, active()...)})
	})
}
