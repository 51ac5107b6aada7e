package recordapi

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"
)

// Losses are listed for the role read, and accepted for the role write, with an entry in the audit trail before.
func TestLosses(t *testing.T) {
	_, file, _ := open(t)
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	lost := []Loss{{"api/month", "redis://localhost", at, at.Add(time.Hour)}, {"api/plain", "counts", at, at.Add(time.Minute)}}
	var accepted []string
	var refuses error
	api := NewLosses(LossOptions{
		Losses: func() []Loss { return lost },
		Rules: func() map[string]string {
			return map[string]string{"month": "api/month", "api/month": "api/month", "whole": "api/whole"}
		},
		Records: file, Log: slog.New(slog.DiscardHandler),
		Accept: func(_ context.Context, rule string) error {
			accepted = append(accepted, rule)
			lost = slices.DeleteFunc(slices.Clone(lost), func(l Loss) bool { return rule == "" || l.Rule == rule })
			return refuses
		},
	})
	const month = `{"rule":"api/month","place":"redis://localhost","since":"2026-11-26T12:00:00Z","until":"2026-11-26T13:00:00Z"}`
	const plain = `{"rule":"api/plain","place":"counts","since":"2026-11-26T12:00:00Z","until":"2026-11-26T12:01:00Z"}`
	for i, step := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", LossPath, "", 200, `{"losses":[` + month + `,` + plain + `]}`},
		{"POST", LossPath, `{"rule":"whole"}`, 200, `{"accepted":[]}`},
		{"POST", LossPath, `{"rule":"nobody"}`, 404, `{"error":{"code":"not_found","message":"no durable rule has the name \"nobody\"...`},
		{"POST", LossPath, `{}`, 400, `{"error":{"code":"bad_request","message":"rule: a rule or all is expected...`},
		{"POST", LossPath, `{"rule":"","all":true}`, 400, `{"error":{"code":"bad_request","message":"rule: a rule or all is expected...`},
		{"POST", LossPath, `{"rule":"month","all":true}`, 400, `{"error":{"code":"bad_request","message":"rule: a rule or all is expected...`},
		{"POST", LossPath, `{"rules":"month"}`, 400, `{"error":{"code":"bad_request",...`},
		{"PUT", LossPath, `{}`, 405, `{"error":{"code":"method_not_allowed",...`},
		{"GET", LossPath + "/x", "", 404, `{"error":{"code":"not_found",...`},
		{"POST", LossPath, `{"rule":"month"}`, 200, `{"accepted":[` + month + `]}`},
		{"POST", LossPath, `{"all":true}`, 200, `{"accepted":[` + plain + `]}`},
		{"POST", LossPath, `{"all":true}`, 200, `{"accepted":[]}`},
		{"GET", LossPath, "", 200, `{"losses":[]}`},
	} {
		header := []string{"Content-Type: application/json", "X-Stint-Why: restored"}
		expect(t, step.method+" "+step.path+" "+string(rune('a'+i)), call(api, step.method, step.path, step.body, header...), step.status, step.want)
	}
	if !slices.Equal(accepted, []string{"api/month", ""}) {
		t.Errorf("accepted %q", accepted)
	}
	var entries []string
	for e, err := range file.Trail(1) {
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, string(e.Action)+" "+e.Object+" "+e.Why+" "+string(e.Before))
	}
	if want := []string{"accept-loss api/month restored [" + month + "]", "accept-loss - restored [" + plain + "]"}; !slices.Equal(entries, want) {
		t.Errorf("audit %q, want %q", entries, want)
	}
	lost, refuses = []Loss{{"api/month", "redis://localhost", at, at}}, errors.New("no answer")
	expect(t, "a store that refuses", call(api, "POST", LossPath, `{"all":true}`, "Content-Type: application/json"), 503, `{"error":{"code":"unavailable","message":"the store did not take it: no answer; ask again when the store answers; of several servers some may have taken it...`)
	lost = []Loss{{"api/month", "redis://localhost", at, at}}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	n := len(accepted)
	expect(t, "a trail that refuses", call(api, "POST", LossPath, `{"all":true}`, "Content-Type: application/json"), 507, `{"error":{"code":"not_saved","message":"no loss was accepted: ...`)
	if len(accepted) > n {
		t.Error("accepted without an entry in the audit trail")
	}
}

// Callers with the role support may only look.
func TestLossesNeedWrite(t *testing.T) {
	as := callers(t, NewLosses(LossOptions{
		Losses: func() []Loss { return nil }, Rules: func() map[string]string { return nil }, Log: slog.New(slog.DiscardHandler),
	}))
	for _, step := range []struct {
		role, method string
		status       int
	}{{"read", "GET", 200}, {"support", "POST", 403}, {"write", "POST", 200}} {
		if w := as(step.role, step.method, LossPath, `{"all":true}`, "Content-Type: application/json"); w.Code != step.status {
			t.Errorf("%s %s: %d %s", step.role, step.method, w.Code, w.Body)
		}
	}
}
