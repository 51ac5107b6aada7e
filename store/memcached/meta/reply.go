package meta

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Status is the first word of an answer.
type Status uint8

// The statuses of memcached's meta commands, and of the lines of stats.
const (
	Done     Status = iota // HD: it was done
	Value                  // VA: it was done, and a value follows
	Missing                // EN, NF: there is no such key
	Exists                 // NS: there is such a key already
	Changed                // EX: the key has another version
	Numbers                // the lines of stats
	Rejected               // the server refused the command; Reply.Problem says why
)

// Reply is the answer to one command.
type Reply struct {
	Status  Status
	Value   []byte            // the value of Value
	CAS     uint64            // the version of the key; 0 if the command does not ask for it
	Numbers map[string]string // what stats returned
	Problem string            // what the server wrote, for Rejected
}

// Number returns the value as a number; false if it is none.
func (r *Reply) Number() (uint64, bool) {
	n, err := strconv.ParseUint(string(bytes.TrimRight(r.Value, " ")), 10, 64) // memcached may pad a counter with blanks
	return n, err == nil
}

const (
	// maxLine is the longest line of an answer in bytes.
	maxLine = 8 << 10

	// maxValue is the largest value in bytes; memcached's own limit is 1 MiB unless its -I says more.
	maxValue = 8 << 20

	// maxNumbers is the largest number of lines that stats may have.
	maxNumbers = 10_000
)

// errProtocol is the error about an answer that is no answer of memcached.
var errProtocol = errors.New("the answer is not one of memcached's")

// readReply reads the answer to one command.
func readReply(r *bufio.Reader, lines bool) (Reply, error) {
	if lines {
		return readNumbers(r)
	}
	text, err := readLine(r)
	if err != nil {
		return Reply{}, err
	}
	word, flags, _ := strings.Cut(text, " ")
	reply := Reply{}
	switch word {
	case "HD", "OK", "STORED", "MN":
		reply.Status = Done
	case "EN", "NF":
		reply.Status = Missing
	case "NS":
		reply.Status = Exists
	case "EX":
		reply.Status = Changed
	case "VA":
		size, rest, _ := strings.Cut(flags, " ")
		flags, reply.Status = rest, Value
		if reply.Value, err = readValue(r, size); err != nil {
			return reply, err
		}
	case "ERROR", "CLIENT_ERROR", "SERVER_ERROR":
		return Reply{Status: Rejected, Problem: text}, nil
	default:
		return reply, fmt.Errorf("%w: %.40q", errProtocol, text)
	}
	for flag := range strings.FieldsSeq(flags) {
		if flag[0] == 'c' {
			if reply.CAS, err = strconv.ParseUint(flag[1:], 10, 64); err != nil {
				return reply, fmt.Errorf("%w: %.40q", errProtocol, text)
			}
		}
	}
	return reply, nil
}

// readValue reads a value of a size, and the end of its line.
func readValue(r *bufio.Reader, size string) ([]byte, error) {
	n, err := strconv.ParseUint(size, 10, 32)
	if err != nil || n > maxValue {
		return nil, fmt.Errorf("%w: a value of %.20q bytes", errProtocol, size)
	}
	value := make([]byte, n+2)
	if _, err := io.ReadFull(r, value); err != nil {
		return nil, err
	}
	if string(value[n:]) != "\r\n" {
		return nil, fmt.Errorf("%w: a value without an end", errProtocol)
	}
	return value[:n:n], nil
}

// readNumbers reads the lines of stats.
func readNumbers(r *bufio.Reader) (Reply, error) {
	reply := Reply{Status: Numbers, Numbers: map[string]string{}}
	for range maxNumbers {
		text, err := readLine(r)
		if err != nil {
			return reply, err
		}
		word, rest, _ := strings.Cut(text, " ")
		switch word {
		case "END", "RESET":
			return reply, nil
		case "STAT":
			name, value, _ := strings.Cut(rest, " ")
			reply.Numbers[name] = value
		case "ERROR", "CLIENT_ERROR", "SERVER_ERROR":
			return Reply{Status: Rejected, Problem: text}, nil
		default:
			return reply, fmt.Errorf("%w: %.40q", errProtocol, text)
		}
	}
	return reply, fmt.Errorf("%w: stats without an end", errProtocol)
}

// readLine reads a line without its end.
func readLine(r *bufio.Reader) (string, error) {
	text, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", fmt.Errorf("%w: a line of more than %d bytes", errProtocol, maxLine)
	}
	if err != nil {
		return "", err
	}
	return string(bytes.TrimRight(text, "\r\n")), nil
}
