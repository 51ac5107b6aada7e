package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"stint/internal/testkit"
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

var stateScripts = []struct{ name, lua string }{
	{"text", stateScript(
		`if find(value, head, 1, true) == 1 then t = tonumber(sub(value, #head + 1)) else t = -1 end`,
		"#head", "format('%d', after)", "head .. format('%d', after)", "return found")},
	{"packed", stateScript(statePacked, "0", "pack('<d', after)", "pack('<d', after) .. head", replyPacked)},
	// If the hash were replaced from time to time, to drop old fields, keys that are only in the old
	// hash would need a second HMGET.
	{"hash", stateHead + "local values, new, n = call('HMGET', 'states', unpack(keys)), {}, 0\n" +
		strings.NewReplacer("READ", statePacked, "WRITE", "new[n + 1], new[n + 2], n = keys[i], pack('<d', after) .. head, n + 2").Replace(stateLoop) +
		"call('HSET', 'states', unpack(new, 1, n))\n" + replyPacked},
	{"read", "return #redis.call('MGET', unpack(KEYS))"},
}

// BenchmarkRedisState compares what one take costs the server, in a call of 64 keys, if states are
// texts as they are, packed numbers, or fields of one hash; and what reading them costs at least.
// All have turns in each round, with keys in different states.
func BenchmarkRedisState(b *testing.B) {
	server := testkit.StartRedis(b)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, ForceSingleClient: true, DisableCache: true})
	must(b, err)
	b.Cleanup(client.Close)
	const size, calls, interval = 64, 500, 600
	numbers := binary.LittleEndian.AppendUint64(nil, math.Float64bits(interval))
	numbers = binary.LittleEndian.AppendUint64(numbers, math.Float64bits(60_000_000))
	words := []string{string(numbers), "1b 100000 60000000 100000|"}
	costs := make([][]float64, len(stateScripts))
	for round := 0; b.Loop(); round++ {
		for n := range stateScripts {
			i := (round + n) % len(stateScripts)
			script := rueidis.NewLuaScript(stateScripts[i].lua)
			keys := make([]string, size)
			for k := range keys {
				keys[k] = fmt.Sprint(stateScripts[i].name, ":token_bucket:api/user=", k)
				for range round % 2 * k { // every second round the keys stand at different times
					must(b, script.Exec(context.Background(), client, keys[k:k+1], words).Error())
				}
			}
			cpu := server.CPU()
			for range calls {
				must(b, script.Exec(context.Background(), client, keys, words).Error())
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
		b.ReportMetric(times[len(times)/2], one.name+"-times")
	}
}
