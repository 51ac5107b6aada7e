package load_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stint/load"
)

// A load is fresh exactly for its time to live, and a new value replaces it.
func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g load.Gauges
		check := func(name string, want float64, fresh bool) {
			t.Helper()
			if got, ok := g.Load(name); got != want || ok != fresh {
				t.Errorf("%s after %v: %v, %v, want %v, %v", name, time.Now(), got, ok, want, fresh)
			}
		}
		set := func(name string, value float64, ttl time.Duration) {
			t.Helper()
			if err := g.Set(name, value, ttl); err != nil {
				t.Fatal(err)
			}
		}
		check("db", 0, false)
		set("db", 0.2, 5*time.Second)
		set("idle", 0, load.MinTTL)
		set("over", 1.5, load.MaxTTL)
		check("db", 0.2, true)
		check("idle", 0, true)
		check("over", 1.5, true)
		check("other", 0, false)
		time.Sleep(5*time.Second - 1) // fake time
		check("db", 0.2, true)
		time.Sleep(time.Nanosecond) // fake time
		check("db", 0, false)
		check("idle", 0, false)
		set("db", 0.9, time.Minute)
		set("db", 0.3, time.Second)
		check("db", 0.3, true)
		time.Sleep(time.Second) // fake time
		check("db", 0, false)
		if got := g.Names(); !slices.Equal(got, []string{"db", "idle", "over", "process"}) {
			t.Errorf("names %q", got)
		}
	})
}

func TestSetRefuses(t *testing.T) {
	var g load.Gauges
	g.Func("own", func() (float64, bool) { return 0.5, true })
	for _, test := range []struct {
		name  string
		load  float64
		ttl   time.Duration
		field string
		says  string
	}{
		{"a", math.NaN(), time.Second, "load", "NaN is not a load"},
		{"a", -0.1, time.Second, "load", "-0.1 is not a load"},
		{"a", math.Inf(-1), time.Second, "load", "-Inf is not a load"},
		{"a", math.Inf(1), time.Second, "load", "+Inf is above 10"},
		{"a", 20, time.Second, "load", "20 is above 10"},
		{"a", 0.5, 0, "ttl", "0s is outside 10ms to 10m0s"},
		{"a", 0.5, -time.Second, "ttl", "-1s is outside"},
		{"a", 0.5, time.Hour, "ttl", "1h0m0s is outside"},
		{"", 0.5, time.Second, "name", "a name of 0 bytes"},
		{strings.Repeat("x", 257), 0.5, time.Second, "name", "a name of 257 bytes"},
		{"process", 0.5, time.Second, "name", `"process" measures itself`},
		{"own", 0.1, time.Second, "name", `"own" measures itself`},
	} {
		err := g.Set(test.name, test.load, test.ttl)
		wrong, ok := errors.AsType[*load.Error](err)
		if !ok || wrong.Field != test.field || !strings.Contains(err.Error(), test.says) || wrong.Hint == "" {
			t.Errorf("%q %v %v: %v, want %s: %s", test.name, test.load, test.ttl, err, test.field, test.says)
		}
	}
	if value, fresh := g.Load("a"); fresh {
		t.Errorf("what was refused shows %v", value)
	}
}

// A function is called each time; an invalid load is not fresh.
func TestFunc(t *testing.T) {
	var g load.Gauges
	if err := g.Set("db", 0.1, time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		load  float64
		fresh bool
		want  bool
	}{
		{0.7, true, true},
		{0, true, true},
		{0.7, false, false},
		{math.NaN(), true, false},
		{-1, true, false},
		{math.Inf(1), true, false},
		{80, true, false},
	} {
		g.Func("db", func() (float64, bool) { return test.load, test.fresh })
		if got, fresh := g.Load("db"); fresh != test.want || fresh && got != test.load || !fresh && got != 0 {
			t.Errorf("%+v: %v, %v", test, got, fresh)
		}
	}
	g.Func("db", nil)
	if got, fresh := g.Load("db"); fresh {
		t.Errorf("%v, after the function was taken away", got)
	}
	g.Func(load.Process, func() (float64, bool) { return 0.25, true })
	if got, fresh := g.Load(load.Process); got != 0.25 || !fresh {
		t.Errorf("own measure of the process: %v, %v", got, fresh)
	}
}

func TestConcurrentUse(t *testing.T) {
	var g load.Gauges
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 200 {
				name := fmt.Sprint("g", n%3)
				if err := g.Set(name, float64(i)/10, time.Second); err != nil && n%3 != 0 {
					t.Error(err)
				}
				g.Func("g0", func() (float64, bool) { return 0.5, true })
				g.Load(name)
				g.Load(load.Process)
				g.Names()
			}
		})
	}
	all.Wait()
}
