package rule_test

import (
	"strings"
	"testing"

	"stint/rule"
)

// CheckGrant refuses a grant of a limit that no plan has as a strict fixed window, and warns where no rule takes
// the limit for such a subject, and where the subject's plan lacks it.
func TestCheckGrant(t *testing.T) {
	const rules = `
domain: api
plans:
  free: {api: {requests: 5, per: 1h}, bucket: {requests: 5, per: 1h, algorithm: token_bucket}, leased: {requests: 500, per: 1h, coordination: leased}, first: {requests: 5, per: 1h, align: first}, debt: {requests: 5, per: 1h, overdraw: true}, soft: {requests: 50, per: 1h, soft: 10%}, some: {unlimited: true}}
  pro: {api: {requests: 50, per: 1h}, some: {requests: 50, per: 1h}, unused: {requests: 50, per: 1h}}
  bare: {some: {requests: 5, per: 1h}}
default_plan: DEFAULT
descriptors:
  - {key: user, rate_limit: [{plan: api}, {plan: bucket}, {plan: leased}, {plan: first}, {plan: debt}, {plan: soft}, {plan: some}]}
  - {key: team, rate_limit: {plan: some, name: teams}}
`
	withDefault, denying := parse(t, strings.Replace(rules, "DEFAULT", "free", 1)), parse(t, strings.Replace(rules, "DEFAULT", "deny", 1))
	for _, tt := range []struct {
		table                *rule.Table
		subject, limit, plan string
		warning, err         string
	}{
		{withDefault, "user=1", "api", "", "", ""},
		{withDefault, "user=1", "api", "pro", "", ""},
		{withDefault, "user=1", "api", "bare", `the plan "bare" of the subject has no limit "api"`, ""},
		{withDefault, "user=1", "api", "gone", `the plan "gone" of the subject has no limit "api"`, ""},
		{withDefault, "user=1", "some", "", `the default plan of the subject has no limit "some"`, ""},
		{withDefault, "user=1", "some", "pro", "", ""},
		{withDefault, "user=1", "unused", "pro", `takes a limit "unused"`, ""},
		{withDefault, "user=1", "none", "", `takes a limit "none"`, ""},
		{withDefault, "org=1", "api", "", `from the plan of a "org"`, ""},
		{withDefault, "team=1", "some", "pro", "", ""},
		{denying, "user=1", "api", "", "the subject has no plan", ""},
		{withDefault, "user=1", "bucket", "", "", `no plan has a limit "bucket"`},
		{withDefault, "user=1", "leased", "", "", `no plan has a limit "leased"`},
		{withDefault, "user=1", "first", "", "", `no plan has a limit "first"`},
		{withDefault, "user=1", "debt", "", "", `no plan has a limit "debt"`},
		{withDefault, "user=1", "soft", "", "", `no plan has a limit "soft"`},
		{nil, "user=1", "api", "", `takes a limit "api"`, ""},
	} {
		warning, err := tt.table.CheckGrant(tt.subject, tt.limit, tt.plan)
		problem := ""
		if err != nil {
			problem = err.Error()
		}
		if !strings.Contains(warning, tt.warning) || tt.warning == "" && warning != "" || !strings.Contains(problem, tt.err) || tt.err == "" && problem != "" {
			t.Errorf("%s %s %s: warning %q, error %q", tt.subject, tt.limit, tt.plan, warning, problem)
		}
	}
}
