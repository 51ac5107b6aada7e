package redis_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"stint/internal/testkit"
	"stint/store/redis/script"
)

// BenchmarkScripts compares the processor time of the scripts for the same takes of token buckets: of
// one and of ten in a call that is sent alone, for a strict key and a leased one, and a message about
// a lease. All have turns in each round. It reports the least time of each, which other work on the
// machine changes least: of the script, and of Redis with reading the call and writing the answer.
func BenchmarkScripts(b *testing.B) {
	server := testkit.StartRedis(b)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, ForceSingleClient: true, DisableCache: true})
	testkit.Must(b, err)
	b.Cleanup(client.Close)
	var process int64
	_, err = fmt.Sscanf(server.Do("EVAL", "return tostring(redis)", "0"), "table: 0x%x", &process)
	testkit.Must(b, err)
	const began = 1_767_225_500_000_000
	_, run, _ := strings.Cut(server.Do("INFO", "server"), "run_id:")
	server.Do("SET", "epoch", fmt.Sprint(int64(began), " 0 ", run[:40]))
	server.Do("SET", "process", fmt.Sprintf("%d 0 table: 0x%x", int64(began), process))

	const head, most = "1b 1000000 1000000 1000000|", 1_000_000
	keys, heads := make([]string, 10), make([]string, 10)
	var units []int64
	for i := range keys {
		keys[i], heads[i] = fmt.Sprint("bucket", i), head
		units = append(units, 1, most)
	}
	quick := string(script.Doubles(nil, 0, 15_000, 0, 1, most, 0, 1))
	together := make([]byte, 0, 20)
	for i := range 10 {
		together = append(together, byte(i)|128, 0)
	}
	together[18] &= 127
	loan := append([]string{string(script.Doubles(nil, 0, 15_000, 1, most, 1, 7, 1, began, 0, 0, 20, 0, began))}, head)
	decide := strings.Fields("0 15000 0 0 1 HEAD 0 1 64 -1 7 1 0 0 0 20 0 0")
	decide[5] = strings.TrimSuffix(head, "|")
	plain, in := script.Plain(), script.In(began, process)
	list := []struct {
		name, lua   string
		keys, words []string
	}{
		{"one", plain + script.Text("one"), keys[:1], []string{head, "1", fmt.Sprint(most), fmt.Sprint(len(head))}},
		{"one-leased", in + script.Text("one"), []string{"bucket0", "process"}, []string{head, "1", fmt.Sprint(most), fmt.Sprint(len(head))}},
		{"one-by-quick", plain + script.Text("write", "quick"), keys[:1], []string{quick, "\x00", "\x01", "", head}},
		{"ten", plain + script.Text("write", "few"), keys, append([]string{string(script.Doubles(nil, append([]int64{15_000, 0}, units...)...))}, heads...)},
		{"ten-by-quick", plain + script.Text("write", "quick"), keys, []string{quick, strings.Repeat("\x00", 10), "", string(together), head}},
		{"message", script.Text("terms", "lease"), []string{"lent", "epoch"}, loan},
		{"message-by-decide", (script.KindsOf("1b") | script.Lend).Text(), []string{"lent", "epoch", "process"}, decide},
	}
	micros, whole := make([][]float64, len(list)), make([][]float64, len(list))
	for b.Loop() {
		for i, one := range list {
			lua := rueidis.NewLuaScript(one.lua)
			server.Do("CONFIG", "RESETSTAT")
			const times = 400
			cpu := server.CPU()
			for range times {
				testkit.Must(b, lua.Exec(context.Background(), client, one.keys, one.words).Error())
			}
			whole[i] = append(whole[i], float64((server.CPU()-cpu).Microseconds())/times)
			var calls, usec float64
			_, rest, _ := strings.Cut(server.Do("INFO", "commandstats"), "cmdstat_evalsha:")
			if _, err := fmt.Sscanf(rest, "calls=%f,usec=%f", &calls, &usec); err != nil {
				b.Fatal(err)
			}
			micros[i] = append(micros[i], usec/calls)
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, one := range list {
		b.ReportMetric(slices.Min(micros[i]), one.name+"-script-µs")
		b.ReportMetric(slices.Min(whole[i]), one.name+"-redis-µs")
	}
}
