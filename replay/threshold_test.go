package replay

import (
	"errors"
	"testing"
)

func TestThreshold(t *testing.T) {
	report := Report{Lines: 2000, Parsed: 1000, Unparseable: 1000, Denied: 10, Late: 3}
	for text, want := range map[string]bool{
		"denied > 1%": false, "denied >= 1%": true, "denied < 1%": false, "denied <= 1%": true,
		"denied > 0.999999999%": true, "denied > 1.000000001%": false, "denied>9": true, " denied > 10 ": false, "denied >= 10": true,
		"late > 0": true, "late > 0.3 %": false, "late >= 0.3%": true, "late < 4": true, "late <= 2": false,
		"unparseable >= 50%": true, "unparseable > 50%": false, "unparseable < 100%": true, "unparseable > 999999999999999999": false,
	} {
		threshold, err := ParseThreshold(text, new(Report))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if met, has := threshold.Met(&report); met != want {
			t.Errorf("%s: %v of %s", text, met, has)
		}
	}
	met, has := mustThreshold(t, "denied > 0%").Met(&Report{})
	if met || has != "0 of 0 lines (0.00%)" {
		t.Errorf("an empty report has %q, met: %v", has, met)
	}
}

func mustThreshold(t *testing.T, text string) *Threshold {
	t.Helper()
	threshold, err := ParseThreshold(text, new(Report))
	if err != nil {
		t.Fatal(err)
	}
	return threshold
}

func TestThresholdErrors(t *testing.T) {
	for _, text := range []string{
		"", "denied", "denied >", "denied > %", "> 1%", "denied = 1%", "denied == 1", "denied >> 1", "allowed > 1", "denied > -1", "denied > 1%%",
		"denied > 101%", "denied > 1e3", "denied > 1. ", "denied > 9999999999999999999", "denied > 1% and late > 1",
	} {
		threshold, err := ParseThreshold(text, new(Report))
		if problem, ok := errors.AsType[*ThresholdError](err); !ok || problem.Hint == "" {
			t.Errorf("%q: %v, %v", text, threshold, err)
		}
	}
}
