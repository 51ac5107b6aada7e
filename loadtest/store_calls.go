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
	from := bufio.NewReader(conn)
	head, err := from.ReadString('\n')
	if err != nil {
		return 0, err
	}
	length, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(head, "$")))
	if err != nil || length < 0 {
		return 0, fmt.Errorf("%s answered %q to INFO", address, strings.TrimSpace(head))
	}
	stats := make([]byte, length)
	if _, err := io.ReadFull(from, stats); err != nil {
		return 0, err
	}
	return scripts(string(stats))
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
