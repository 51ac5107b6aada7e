package dbfile

import (
	"errors"
	"testing"

	"stint/internal/testkit"
)

// A value is read as it was written, and no change of any byte of it or of its name passes.
func TestDecode(t *testing.T) {
	name := []byte("user=42")
	value, err := Encode(name, map[string]int{"a": 7})
	testkit.Must(t, err)
	got, err := Decode[map[string]int](name, value)
	if err != nil || got["a"] != 7 {
		t.Errorf("%v, %v", got, err)
	}
	refused := func(name, value []byte, problem string) {
		t.Helper()
		_, err := Decode[map[string]int](name, value)
		if fault, ok := errors.AsType[*ValueError](err); !ok || fault.Name != string(name) || fault.Problem != problem {
			t.Errorf("%q, %q: %v", name, value, err)
		}
	}
	const damaged = "has another checksum than was written"
	for i := range value {
		value[i] ^= 1
		refused(name, value, damaged)
		value[i] ^= 1
		refused(name, value[:i], damaged)
	}
	refused([]byte("user=43"), value, damaged)
	refused(name, EncodeText(name, []byte("{")), "is not a valid record")
}
