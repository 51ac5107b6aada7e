package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"stint/internal/jsonbody"
	"stint/internal/text"
)

// API shows and sets the gauges that rules use: /v1/load. Its fields must not be changed after the first one.
type API struct {
	Gauges  *Gauges
	Names   func() []string // names of the gauges that the current rules use
	MaxBody int             // maximum size of a body in bytes
	Log     *slog.Logger
}

// listAnswer is the answer to GET /v1/load.
type listAnswer struct {
	Gauges []answer `json:"gauges"`
}

// answer is one gauge that rules use.
type answer struct {
	Gauge string `json:"gauge"`

	// Load is null if there is no current value; then no limit allows more than its own numbers.
	Load *float64 `json:"load"`
}

// The members of the body of PUT /v1/load/NAME.
var loadFields = []string{"load", "ttl"}

const (
	hasLoad = 1 << iota
	hasTTL
)

const (
	loadHint = "send a number from 0 (idle) to 1 (full capacity)"
	ttlHint  = `send how long the value is valid, such as "5s": two or three times the interval between updates`
)

// List returns all gauges that rules use.
func (a *API) List(w http.ResponseWriter, _ *http.Request) {
	list := listAnswer{Gauges: []answer{}}
	for _, name := range a.Names() {
		list.Gauges = append(list.Gauges, a.gauge(name))
	}
	jsonbody.WriteJSON(w, http.StatusOK, list)
}

// Show returns the gauge that the path names.
func (a *API) Show(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if f := a.checkGauge(name); f != nil {
		f.Write(w)
		return
	}
	jsonbody.WriteJSON(w, http.StatusOK, a.gauge(name))
}

// Set sets the gauge that the path names.
func (a *API) Set(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	f := a.checkGauge(name)
	if f == nil {
		f = a.readLoad(r, name)
	}
	if f != nil {
		f.Write(w)
		return
	}
	a.Log.Debug("load set", "gauge", name, "peer", r.RemoteAddr)
	jsonbody.WriteJSON(w, http.StatusOK, a.gauge(name))
}

// gauge returns the value of a gauge.
func (a *API) gauge(name string) answer {
	one := answer{Gauge: name}
	if value, fresh := a.Gauges.Load(name); fresh {
		one.Load = &value
	}
	return one
}

// checkGauge refuses a name that no rule uses: it is probably misspelled, and setting it would have
// no effect.
func (a *API) checkGauge(name string) *jsonbody.Fault {
	known := a.Names()
	if slices.Contains(known, name) {
		return nil
	}
	hint := "no rule asks any; write elastic: {from: load} in one"
	if len(known) > 0 {
		shown := known[:min(len(known), 20)]
		hint = "those that rules ask are " + strings.Join(shown, ", ")
		if len(shown) < len(known) {
			hint += fmt.Sprintf(" and %d more, see GET /v1/load", len(known)-len(shown))
		}
	}
	return &jsonbody.Fault{Status: http.StatusNotFound, Code: jsonbody.NotFound, Problem: "no rule asks the gauge " + text.Quote(name), Hint: hint}
}

// readLoad decodes the body and sets the gauge.
func (a *API) readLoad(r *http.Request, name string) *jsonbody.Fault {
	if f := jsonbody.CheckType(r.Header.Get("Content-Type")); f != nil {
		return f
	}
	body, err := jsonbody.Read(nil, r, a.MaxBody)
	if err != nil {
		return jsonbody.ReadFault(err, a.MaxBody)
	}
	var value float64
	var ttl time.Duration
	s := jsonbody.Scanner{Data: body}
	seen, f := s.Object(loadFields, func(field int) (f *jsonbody.Fault) {
		switch 1 << field {
		case hasLoad:
			value, f = readNumber(&s)
		case hasTTL:
			ttl, _, f = s.Duration(ttlHint)
		}
		return f
	})
	if f == nil {
		f = s.End()
	}
	switch {
	case f != nil:
		return f
	case seen&hasLoad == 0:
		return jsonbody.Bad("load", "missing", loadHint)
	case seen&hasTTL == 0:
		return jsonbody.Bad("ttl", "missing", ttlHint)
	}
	err = a.Gauges.Set(name, value, ttl)
	if wrong, ok := errors.AsType[*Error](err); ok {
		return jsonbody.Bad(wrong.Field, wrong.Problem, wrong.Hint)
	}
	return nil
}

// readNumber reads a number; one that is too large for a float64 becomes infinite.
func readNumber(s *jsonbody.Scanner) (float64, *jsonbody.Fault) {
	s.Space()
	start := s.Pos
	written, f := s.Number()
	if f != nil {
		return 0, f
	}
	n, err := strconv.ParseFloat(written, 64)
	if !json.Valid([]byte(written)) || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, jsonbody.BadAt(start, text.Quote(written)+" is not a number", loadHint)
	}
	return n, nil
}
