package strictyaml

// Node is one parsed value of a document. Package parser creates them.
type Node struct {
	Kind    Kind
	Line    int     // counted from 1
	Content []*Node // elements of a list, or alternately words and values of an object
	Target  *Node   // target of an alias

	// Fields of a scalar.
	Tag    string  // its type, for example !!str or !!int
	Text   string  // as written in the file, without quotes
	Plain  bool    // without quotes and without a tag
	Native Decoder // converts it to a Go value
}

// Decoder converts a scalar to the Go value that v points to.
type Decoder interface{ Decode(v any) error }

// Kind is the kind of a node.
type Kind uint8

// The kinds of nodes.
const (
	Scalar Kind = iota + 1
	Sequence
	Mapping
	Alias
)
