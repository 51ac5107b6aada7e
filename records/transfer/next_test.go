package transfer

import (
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/records"
)

// An export has the next plan of a subject, and as its plan once that is in force. Both formats can be
// imported, and change nothing where they come from.
func TestNextPlan(t *testing.T) {
	f := open(t)
	subject := records.Subject{Name: "user=1", Kind: records.User, Plan: "free", PlanUntil: now.Add(time.Hour)}
	subject.Next.Plan, subject.Next.From = "pro", now.Add(time.Minute)
	apply(t, f, subject)
	for _, format := range []Format{CSV, JSONLines} {
		other, text := open(t), export(t, f, format)
		if diff, err := load(other, text, Options{Format: format}); err != nil || diff.Added != 1 || export(t, other, format) != text {
			t.Errorf("format %d: %+v, %v\n%s", format, diff, err, text)
		}
		if diff, err := load(f, text, Options{Format: format}); err != nil || diff.Unchanged != 1 {
			t.Errorf("format %d, a repeat: %+v, %v", format, diff, err)
		}
	}
	for after, want := range map[time.Duration]string{
		59 * time.Second: `"kind":"user","plan":"free","plan_until":"2026-07-30T13:00:00Z","next_plan":"pro","next_from":"2026-07-30T12:01:00Z"}`,
		time.Minute:      `"kind":"user","plan":"pro","plan_until":"2026-07-30T13:00:00Z"}`,
		time.Hour:        `"kind":"user"}`,
	} {
		var out strings.Builder
		testkit.Must(t, Export(f, NewWriter(&out, JSONLines), Kinds, now.Add(after)))
		if !strings.Contains(out.String(), want) {
			t.Errorf("after %v: %s, want %s", after, out.String(), want)
		}
		diff, _, err := Import(t.Context(), f, strings.NewReader(out.String()), Options{Kinds: Kinds}, now.Add(after))
		if err != nil || diff.Unchanged != 1 {
			t.Errorf("after %v: %+v, %v", after, diff, err)
		}
	}
}
