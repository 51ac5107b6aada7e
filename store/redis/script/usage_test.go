package script

import (
	"reflect"
	"testing"

	"stint/internal/transaction"
)

// The periods of a history have the plans that they were written with; without one, and the current one, that of the names.
func TestReadUsage(t *testing.T) {
	names := transaction.Usage{Names: transaction.Names{Domain: "api", Rule: "calls", Subject: "user=1", Plan: "pro"}}
	of, _ := names.AppendBinary(nil) // the error is always nil
	fields := map[string]string{"of": string(of), "10 20": "7 80,", "20 30": "8  free and easy", "30 40": "9 1,2, ", "cur": "40 50 3 "}
	u, err := ReadUsage(fields)
	want := transaction.History{
		{Start: 10, End: 20, Used: 7, Fired: transaction.Thresholds{0, 1 << 16}, Plan: "pro"},
		{Start: 20, End: 30, Used: 8, Plan: "free and easy"},
		{Start: 30, End: 40, Used: 9, Fired: transaction.Thresholds{6}},
		{Start: 40, End: 50, Used: 3, Plan: "pro"},
	}
	if err != nil || !reflect.DeepEqual(u.History, want) {
		t.Errorf("%+v, %v", u.History, err)
	}
	for field, value := range map[string]string{"10 20": "7", "cur": "", "20 30": "8 101, free", "x y": "1  free"} {
		wrong := map[string]string{"of": string(of), "cur": "40 50 3 ", field: value}
		if u, err := ReadUsage(wrong); err == nil {
			t.Errorf("%q %q: %+v", field, value, u)
		}
	}
}
