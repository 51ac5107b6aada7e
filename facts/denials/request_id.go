package denials

// longestID is the length of the longest ID of a request that is noted.
const longestID = 64

// RequestID is the ID of a request in a note, without a pointer to the request.
type RequestID struct {
	length uint8
	bytes  [longestID]byte
}

// Set sets the ID if it is short and plain, else to none: a client chose it.
func (r *RequestID) Set(id string) {
	r.length = 0
	if len(id) > longestID {
		return
	}
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c >= 0x7f {
			return
		}
	}
	r.length = uint8(copy(r.bytes[:], id))
}

// String returns the ID.
func (r *RequestID) String() string { return string(r.bytes[:r.length]) }
