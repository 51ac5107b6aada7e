package factsapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"stint/facts"
	"stint/facts/advice"
	"stint/rule"
	"stint/rule/rulefile"
)

// known are facts that are known beforehand.
type known struct {
	facts.Reader
	summary facts.Summary
	points  []facts.Point
}

func (k *known) Summary(context.Context) facts.Summary { return k.summary }

func (k *known) History(_ facts.Of, step time.Duration) facts.History {
	if step != facts.TenMinutes {
		return facts.History{} // a day only
	}
	return facts.History{Points: k.points}
}

// ask asks for advice about a rule that used a tenth of its limit for eight days.
func ask(t *testing.T, method, path string, points ...facts.Point) *httptest.ResponseRecorder {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte("domain: api\ndescriptors:\n  - key: user\n    rate_limit: {requests: 100, per: 1m}\n")})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 9, 0, 0, 0, 0, time.UTC)
	before := now.Add(-8 * 24 * time.Hour)
	handler := New(Options{
		Facts: &known{points: points, summary: facts.Summary{At: now, Since: before, Rules: []facts.Rule{{
			Domain: "api", Name: "api/user", Counts: facts.Counts{Allowed: 5000, Denied: 1}, Keys: 100, First: before, Last: now,
			Peaks: facts.Peaks{Since: before, Sampled: 100, Periods: 4000, FirstPeriods: 100, P99: 0.08, P999: 0.1, KeyP99: 0.1},
		}}}},
		Table: func() *rule.Table { return table },
	})
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// TestAdvice: a denial before the seven days of the history does not matter, one in them does.
func TestAdvice(t *testing.T) {
	for _, c := range []struct {
		point  facts.Point
		advice int
	}{
		{facts.Point{At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Counts: facts.Counts{Denied: 1}}, 1},
		{facts.Point{At: time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC), Counts: facts.Counts{Denied: 1}}, 0},
	} {
		w := ask(t, http.MethodGet, "/v1/advice", c.point)
		var answer AdviceAnswer
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %v: %s", w.Code, err, w.Body)
		}
		if answer.Advice == nil || len(answer.Advice) != c.advice || answer.At.IsZero() || answer.Since.IsZero() {
			t.Errorf("denied at %v: %s", c.point.At, w.Body)
		}
		if len(answer.Advice) == 1 && (answer.Advice[0].Cause != advice.TooLoose || answer.Advice[0].File != "rules.yaml" || answer.Advice[0].Line != 4) {
			t.Errorf("%s", w.Body)
		}
	}
}

func TestAdviceRefuses(t *testing.T) {
	if w := ask(t, http.MethodPost, "/v1/advice"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	if w := ask(t, http.MethodGet, "/v1/advice"+"?rule=x"); w.Code != http.StatusBadRequest {
		t.Errorf("an unknown parameter: %d", w.Code)
	}
}

// TestNoNull: a list without elements is no null.
func TestNoNull(t *testing.T) {
	for path, list := range map[string]string{"/v1/facts/history": "points", "/v1/facts/keys": "keys", "/v1/facts/denials": "denials"} {
		var answer map[string]json.RawMessage
		if w := ask(t, http.MethodGet, path); json.Unmarshal(w.Body.Bytes(), &answer) != nil || string(answer[list]) != "[]" {
			t.Errorf("%s: %s", path, w.Body)
		}
	}
}

func (k *known) Top(context.Context, facts.Of, facts.By, int) []facts.Key { return nil }

func (k *known) Denials(int, func(*facts.Denial) bool) []facts.Denial { return nil }
