package main

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"stint/internal/testkit"
	"stint/store/redis/script"
)

// The scripts of BenchmarkRedisState decide one take of each of 64 buckets, as quick.lua does: they
// check the numbers of the limit, write in place where the key's expiry is late enough, and return
// what they found. They differ in how a state is written.
const (
	stateHead = `local call, sub, find, format, unp, pack = redis.pcall, string.sub, string.find, string.format, struct.unpack, struct.pack
local unpack, tonumber, keys, head = unpack, tonumber, KEYS, ARGV[2]
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local units, most = unp('<dd', ARGV[1])
local found = { now, unpack(keys) }
`
	stateLoop = `for i = 1, #keys do
  local value, t = values[i], 0
  if value then
    READ
  end
  found[i + 1] = t
  local used = t > now and t - now or 0
  if t >= 0 and used + units <= most then
    local after = now + used + units
    WRITE
  end
end
`
	statePacked = `if #value == 8 + #head and find(value, head, 9, true) == 9 then t = unp('<d', value) else t = -1 end`
	replyPacked = `return pack('<' .. string.rep('d', #found), unpack(found))`
	inPlace     = `if t > 0 and t % 5000000 + after - t < 5000000 then
      call('SETRANGE', keys[i], OFFSET, DIGITS)
    else
      call('SET', keys[i], VALUE, 'PX', format('%.0f', (after - now) / 1000 + 15000))
    end`
)

// stateScript returns a script that keeps each state in a string.
func stateScript(read, offset, digits, value, reply string) string {
	write := strings.NewReplacer("OFFSET", offset, "DIGITS", digits, "VALUE", value).Replace(inPlace)
	return stateHead + "local values = call('MGET', unpack(keys))\n" + strings.NewReplacer("READ", read, "WRITE", write).Replace(stateLoop) + reply
}

//go:embed testdata/group_before.lua
var groupBefore string

// groupWords returns the arguments of quick.lua for takes of n keys, each by itself: the numbers, the form of each
// key, one take of each, no takes that are decided together, and the beginning of a state.
func groupWords(numbers ...int64) func(n int) []string {
	return func(n int) []string {
		return []string{string(script.Doubles(nil, numbers...)), strings.Repeat("\x00", n), strings.Repeat("\x01", n), "", stateNumbers}
	}
}

// stateNumbers begin each state. They are those of 100,000 a minute: 600 µs each.
const stateNumbers = "1b 100000 60000000 100000|"

// stateWords returns the arguments of the scripts of this file.
func stateWords(int) []string {
	return []string{string(script.Doubles(nil, 600, 60_000_000)), stateNumbers}
}

// stateScripts are, in one run: the group script as it is, as it was before it knew loans and lost epochs, other
// ways to keep states, and as a floor what reading or only passing the keys costs.
var stateScripts = []struct {
	name, lua string
	words     func(keys int) []string
}{
	{"now", script.Plain() + script.Text("write", "quick"), groupWords(0, 15_000, 0, 600, 60_000_000, 0, 600)},
	{"before", groupBefore, groupWords(0, 15_000, 0, 0, 600, 60_000_000, 0)},
	{"text", stateScript(
		`if find(value, head, 1, true) == 1 then t = tonumber(sub(value, #head + 1)) else t = -1 end`,
		"#head", "format('%d', after)", "head .. format('%d', after)", "return found"), stateWords},
	{"packed", stateScript(statePacked, "0", "pack('<d', after)", "pack('<d', after) .. head", replyPacked), stateWords},
	// If the hash were replaced from time to time, to drop old fields, keys that are only in the old
	// hash would need a second HMGET.
	{"hash", stateHead + "local values, new, n = call('HMGET', 'states', unpack(keys)), {}, 0\n" +
		strings.NewReplacer("READ", statePacked, "WRITE", "new[n + 1], new[n + 2], n = keys[i], pack('<d', after) .. head, n + 2").Replace(stateLoop) +
		"call('HSET', 'states', unpack(new, 1, n))\n" + replyPacked, stateWords},
	{"read", "return #redis.call('MGET', unpack(KEYS))", stateWords},
	{"pass", "return #KEYS", stateWords},
}

// BenchmarkRedisState compares what one take costs the server, in a call of 64 keys, with the group script as it is and
// as it was, and if states are texts as they are, packed numbers, or fields of one hash; and what reading and passing
// the keys costs at least. All have turns in each round, with keys in different states. It reports medians and least
// times, and the median of what each round costs in times the group script.
func BenchmarkRedisState(b *testing.B) {
	server := testkit.StartRedis(b)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, ForceSingleClient: true, DisableCache: true})
	must(b, err)
	b.Cleanup(client.Close)
	const size, calls = 64, 500
	costs := make([][]float64, len(stateScripts))
	for round := 0; b.Loop(); round++ {
		for n := range stateScripts {
			i := (round + n) % len(stateScripts)
			one := &stateScripts[i]
			lua := rueidis.NewLuaScript(one.lua)
			keys := make([]string, size)
			for k := range keys {
				keys[k] = fmt.Sprint(one.name, ":token_bucket:api/user=", k)
			}
			words := one.words(1)
			for k := range keys {
				for range round % 2 * k { // every second round the keys stand at different times
					must(b, lua.Exec(context.Background(), client, keys[k:k+1], words).Error())
				}
			}
			words = one.words(size)
			cpu := server.CPU()
			for range calls {
				must(b, lua.Exec(context.Background(), client, keys, words).Error())
			}
			costs[i] = append(costs[i], float64(server.CPU()-cpu)/float64(time.Microsecond)/calls/size)
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, one := range stateScripts {
		times := make([]float64, len(costs[i]))
		for n := range times {
			times[n] = costs[i][n] / costs[0][n]
		}
		slices.Sort(times)
		slices.Sort(costs[i])
		b.ReportMetric(costs[i][len(times)/2], one.name+"-redis-µs/take")
		b.ReportMetric(costs[i][0], one.name+"-least-µs/take")
		b.ReportMetric(times[len(times)/2], one.name+"-times")
	}
}
