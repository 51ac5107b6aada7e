package members

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
)

// errKey describes a valid key.
var errKey = errors.New("no key: it is 16, 24 or 32 bytes in base64, in one line, such as `openssl rand -base64 32` prints")

// ReadKey reads a key from a file: 16, 24 or 32 bytes in base64, in one line.
func ReadKey(file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(data)))
	if err != nil || len(key) != 16 && len(key) != 24 && len(key) != 32 {
		return nil, fmt.Errorf("%s holds %w", file, errKey)
	}
	return key, nil
}
