package action_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"stint/rule/action"
)

// keyed is a request whose API keys are known.
type keyed struct {
	full
	asked []string
}

var _ action.KeyRecords = (*keyed)(nil)

// Identify knows keys by their subjects: the key u1 is of user=1 with the plan pro.
func (k *keyed) Identify(key string) (subject, plan string, err error) {
	k.asked = append(k.asked, key)
	switch key {
	case "u1":
		return "user=1", "pro", nil
	case "u2":
		return "user=a=b", "", nil
	case "o1":
		return "org=1", "max", nil
	case "broken":
		return "", "", errors.New("disk")
	}
	return "", "", nil
}

func TestRecordedKeys(t *testing.T) {
	for _, tt := range []struct {
		actions, key, want string
		denied             bool
	}{
		{`{api_key: {header_name: k, from: records}}`, "u1", "user=1", false},
		{`{api_key: {header_name: k, from: records}}`, "u2", "user=a=b", false},
		{`{api_key: {header_name: k, from: records}}`, "o1", "", false}, // not a user
		{`{api_key: {header_name: k, from: records}}`, "invalid", "", false},
		{`{api_key: {header_name: k, from: records}}`, "broken", "", false},
		{`{api_key: {header_name: k, from: records}}`, "", "", false},
		{`{api_key: {header_name: k, from: records, descriptor_key: org}}`, "o1", "org=1", false},
		{`{api_key: {header_name: k, from: records, descriptor_key: org}}`, "u1", "", false},
		{`{api_key: {header_name: k, from: records, plan_key: plan}}, {method: {}}`, "u1", "plan=pro user=1 method=GET", false},
		{`{api_key: {header_name: k, from: records, plan_key: plan}}, {method: {}}`, "u2", "user=a=b method=GET", false},
		{`{api_key: {header_name: k, from: records, plan_key: plan}}`, "o1", "", false},
		{`{api_key: {header_name: k, from: records, plan_key: plan, skip_if_absent: true}}, {method: {}}`, "o1", "method=GET", false},
		{`{api_key: {header_name: k, from: records, skip_if_absent: true}}, {method: {}}`, "invalid", "method=GET", false},
		{`{first_of: [{api_key: {header_name: k, from: records}}, {remote_address: {}}]}`, "u1", "user=1", false},
		{`{first_of: [{api_key: {header_name: k, from: records}}, {remote_address: {}}]}`, "invalid", "remote_address=192.0.2.1", false},
		{`{api_key: {header_name: k, from: records, invalid: deny}}`, "u1", "user=1", false},
		{`{api_key: {header_name: k, from: records, invalid: deny}}`, "o1", "", false}, // valid, and of somebody else
		{`{api_key: {header_name: k, from: records, invalid: deny}}`, "invalid", "", true},
		{`{api_key: {header_name: k, from: records, invalid: deny}}`, "broken", "", false}, // nobody knows
		{`{api_key: {header_name: k, from: records, invalid: deny}}`, "", "", false},
		{`{first_of: [{api_key: {header_name: k, from: records, invalid: deny}}, {remote_address: {}}]}`, "invalid", "remote_address=192.0.2.1", true},
	} {
		var a keyed
		if tt.key != "" {
			a.header = http.Header{"K": {tt.key}}
		}
		if got := describe(t, tt.actions, &a); got != tt.want {
			t.Errorf("%s of %q: %q, want %q", tt.actions, tt.key, got, tt.want)
		}
		list := read(t, tt.actions)
		if denied := list.Denies(&a); denied != tt.denied || !list.ReadsRecords() || list.DeniesKeys() != strings.Contains(tt.actions, "deny") {
			t.Errorf("%s of %q: denied is %v", tt.actions, tt.key, denied)
		}
		if hashed := list.Hashed(nil); len(hashed) > 0 {
			t.Errorf("%s: the values of %v count as secrets", tt.actions, hashed)
		}
	}
}

// Without records no key identifies anybody, and none is denied.
func TestRecordedKeysWithoutRecords(t *testing.T) {
	a := &full{plain: plain{header: http.Header{"K": {"u1"}}}}
	const actions = `{api_key: {header_name: k, from: records, invalid: deny}}`
	if got := describe(t, actions, a); got != "" || read(t, actions).Denies(a) {
		t.Errorf("described as %q", got)
	}
}

// A check of the rules sees the key of the subject, and an optional entry for the plan.
func TestRecordedParts(t *testing.T) {
	list := read(t, `{api_key: {header_name: k, from: records, plan_key: plan}}`)
	parts := list.Parts()
	if len(parts) != 2 || parts[0].Key != "plan" || !parts[0].Optional || parts[1].Key != "user" || parts[1].From != action.FromProof || parts[1].Optional {
		t.Errorf("%+v", parts)
	}
	if keys := list.Keys(); len(keys) > 0 {
		t.Errorf("the first entry has one of the keys %v", keys)
	}
	if keys := read(t, `{api_key: {header_name: k, from: records}}, {method: {}}`).Keys(); len(keys) != 2 || keys[0][0] != "user" {
		t.Errorf("the keys are %v", keys)
	}
}
