package loadtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// StoreCalls returns how many decisions and messages of nodes a Redis has answered so far, by its
// own count of script calls. Several that arrive at once may share one call. The address is
// HOST:PORT or the path of a socket.
func StoreCalls(address string) (int, error) {
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
	}
	conn, err := net.DialTimeout(network, address, fleetPatience)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(fleetPatience)); err != nil {
		return 0, err
	}
	if _, err := io.WriteString(conn, "INFO commandstats\r\n"); err != nil {
		return 0, err
	}
	reply, err := readReply(bufio.NewReader(conn), 0)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", address, err)
	}
	stats, ok := reply.(string)
	if !ok {
		return 0, fmt.Errorf("%s answered %v to INFO", address, reply)
	}
	return scripts(stats)
}

// scripts adds up the script calls in the answer to INFO commandstats.
func scripts(stats string) (sum int, err error) {
	for line := range strings.Lines(stats) {
		name, rest, _ := strings.Cut(line, ":calls=")
		if name != "cmdstat_evalsha" && name != "cmdstat_eval" {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		n, err := strconv.Atoi(calls)
		if err != nil {
			return 0, fmt.Errorf("commandstats: %q: %w", strings.TrimSpace(line), err)
		}
		sum += n
	}
	return sum, nil
}
