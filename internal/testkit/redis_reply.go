package testkit

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// readReply reads one answer of RESP 2 as lines of text.
func readReply(r *bufio.Reader) ([]string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return nil, fmt.Errorf("an empty answer")
	}
	switch line[0] {
	case '+', ':':
		return []string{line[1:]}, nil
	case '-':
		return []string{line}, nil
	case '$', '*':
		n, err := strconv.Atoi(line[1:])
		if err != nil || n < 0 {
			return nil, err
		}
		if line[0] == '$' {
			text := make([]byte, n+2)
			_, err := io.ReadFull(r, text)
			return []string{string(text[:n])}, err
		}
		var all []string
		for range n {
			element, err := readReply(r)
			if err != nil {
				return nil, err
			}
			all = append(all, element...)
		}
		return all, nil
	}
	return nil, fmt.Errorf("answer of unknown kind %q", line)
}
