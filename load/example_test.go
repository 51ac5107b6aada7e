package load_test

import (
	"fmt"
	"time"

	"stint/load"
)

// One gauge is set by Set, the other read by a function. The limiter gets the method Load.
func Example() {
	var gauges load.Gauges
	busy, most := 12, 16
	gauges.Func("db", func() (float64, bool) { return float64(busy) / float64(most), true })
	if err := gauges.Set("queue", 0.2, time.Minute); err != nil {
		fmt.Println(err)
	}
	for _, name := range []string{"db", "queue", "mail"} {
		value, fresh := gauges.Load(name)
		fmt.Println(name, value, fresh)
	}
	fmt.Println(gauges.Set("queue", 20, time.Minute))
	// Output:
	// db 0.75 true
	// queue 0.2 true
	// mail 0 false
	// load: 20 is above 10
}
