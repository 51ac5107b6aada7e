package strictyaml

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"stint/internal/text"
)

// Value is one value of a document. Its methods return the value as a type. If it has another type
// they report a fault, and return a zero value.
type Value struct {
	doc   *Document
	node  *Node
	word  string // the word before the value, "" for an element of a list
	depth int
	alias bool // reached through an alias
}

// Line returns the line where the value begins.
func (v Value) Line() int { return v.node.Line }

// Fail adds a fault of the value.
func (v Value) Fail(problem, hint string) { v.doc.Fail(v.node.Line, problem, hint) }

// Word returns the word before the value, "" for an element of a list.
func (v Value) Word() string { return v.word }

// expected adds a fault for a value of another type.
func (v Value) expected(what, hint string) {
	v.Fail(v.prefix()+"expected "+what+", found "+v.kind(), hint)
}

// prefix returns the start of an error text, with the value's word.
func (v Value) prefix() string {
	if v.word == "" {
		return ""
	}
	return v.word + ": "
}

// IsNull reports whether the value is empty or null.
func (v Value) IsNull() bool { return v.node.Kind == Scalar && v.node.Tag == "!!null" }

// IsList reports whether the value is a list.
func (v Value) IsList() bool { return v.node.Kind == Sequence }

// IsObject reports whether the value is an object: words with their values.
func (v Value) IsObject() bool { return v.node.Kind == Mapping }

// IsInt reports whether the value is a whole number without quotes.
func (v Value) IsInt() bool { return v.node.Kind == Scalar && v.node.Tag == "!!int" }

// Text returns a scalar as written in the file; numbers and booleans need no quotes. An empty value
// is "".
func (v Value) Text() string {
	if v.node.Kind != Scalar {
		v.expected("a text", "write one value")
		return ""
	}
	if v.IsNull() && !v.doc.loose {
		return ""
	}
	return v.node.Text // "" for an empty value
}

// NonEmpty is Text, with a fault for an empty text.
func (v Value) NonEmpty() string {
	text := v.Text()
	if text == "" && !v.IsObject() && !v.IsList() {
		v.Fail("an empty text", "write a name, or leave the word out")
	}
	return text
}

// Bool returns a boolean.
func (v Value) Bool() bool {
	if v.doc.loose {
		if b, ok := v.looseBool(); ok {
			return b
		}
	}
	var b bool
	if v.node.Kind != Scalar || v.node.Tag != "!!bool" || v.node.Native.Decode(&b) != nil {
		v.expected("true or false", "write true or false, without quotes")
	}
	return b
}

// looseBool returns the value of the words for true and false in YAML 1.1; an empty value is false.
func (v Value) looseBool() (b, ok bool) {
	if v.IsNull() {
		v.doc.Note(v.Line(), v.prefix()+"nothing stands for false", "write true or false")
		return false, true
	}
	if v.node.Kind != Scalar || !v.node.Plain {
		return false, false
	}
	switch v.node.Text {
	case "y", "Y", "yes", "Yes", "YES", "on", "On", "ON":
		b = true
	case "n", "N", "no", "No", "NO", "off", "Off", "OFF":
	default:
		return false, false
	}
	v.doc.Note(v.Line(), fmt.Sprintf("%s%s stands for %v", v.prefix(), v.node.Text, b), "write true or false")
	return b, true
}

// Uint returns a whole number of at most most.
func (v Value) Uint(most uint64) uint64 {
	n, _ := v.uint(0, most)
	return n
}

func (v Value) uint(least, most uint64) (n uint64, ok bool) {
	if !v.IsInt() && !isDigits(v) {
		v.expected("a whole number", "write digits only, without quotes, fraction or unit")
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(v.node.Text, "+"), 0, 64)
	switch {
	case strings.HasPrefix(v.node.Text, "-"):
		v.Fail(v.prefix()+v.node.Text+" is negative", fmt.Sprintf("write a number from %d to %d", least, most))
	case err != nil && v.node.Native.Decode(&n) != nil, n > most:
		v.Fail(v.prefix()+v.node.Text+" is too large", fmt.Sprintf("write a number from %d to %d", least, most))
	default:
		v.noteOctal(n)
		return n, true
	}
	return 0, false
}

// noteOctal notes a number that YAML reads as octal and people read as decimal: 010 is eight.
func (v Value) noteOctal(n uint64) {
	digits := strings.ReplaceAll(strings.TrimPrefix(v.node.Text, "+"), "_", "")
	if decimal, err := strconv.ParseUint(digits, 10, 64); err == nil && decimal != n && digits[0] == '0' {
		v.doc.octals = append(v.doc.octals, Fault{
			Line: v.node.Line, Problem: fmt.Sprintf("%s%s is %d: YAML reads a number that begins with 0 by base eight", v.prefix(), v.node.Text, n),
			Hint: fmt.Sprintf("write %d, or %d if eight is meant as the base", decimal, n),
		})
	}
}

// isDigits reports whether the value is a whole number that is too large for YAML's integers, so
// that YAML reads it as a float.
func isDigits(v Value) bool {
	return v.node.Kind == Scalar && v.node.Tag == "!!float" && strings.Trim(v.node.Text, "0123456789_") == ""
}

// Uint32 is Uint for numbers below 2^32.
func (v Value) Uint32() uint32 { return uint32(v.Uint(math.MaxUint32)) }

// Count32 is Uint32 for numbers from 1; zero and hint are the fault for 0.
func (v Value) Count32(zero, hint string) uint32 {
	return uint32(v.Count(math.MaxUint32, zero, hint))
}

// Count is Uint for numbers from 1; zero and hint are the fault for 0.
func (v Value) Count(most uint64, zero, hint string) uint64 {
	n, ok := v.uint(1, most)
	if ok && n == 0 {
		v.Fail(v.prefix()+zero, hint)
	}
	return n
}

// OneOf returns the index of the value's word in known, and false if it is not there.
func (v Value) OneOf(known ...string) (int, bool) {
	written := v.Text()
	if i := slices.Index(known, written); i >= 0 {
		return i, true
	}
	hint := "write " + strings.Join(known, " or ")
	if near := Nearest(written, known); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	v.Fail(fmt.Sprintf("%sunknown word %s", v.prefix(), text.Quote(written)), hint)
	return 0, false
}

// List returns the elements of a list; an empty value is an empty list.
func (v Value) List() []Value {
	if v.IsNull() {
		return nil
	}
	if !v.IsList() {
		v.expected("a list", "begin each element with `- `")
		return nil
	}
	return v.elements()
}

// OneOrList returns the elements of a list, or the value itself if it is no list.
func (v Value) OneOrList() []Value {
	if v.IsNull() {
		return nil
	}
	if !v.IsList() {
		return []Value{v}
	}
	return v.elements()
}

func (v Value) elements() []Value {
	list := make([]Value, 0, len(v.node.Content))
	for _, n := range v.node.Content {
		if child, ok := v.child(n); ok {
			list = append(list, child)
		}
	}
	return list
}

// Get returns the value of a word of an object; ok is false if there is none, or v is no object.
func (v Value) Get(word string) (value Value, ok bool) {
	if !v.IsObject() {
		return Value{}, false
	}
	for _, f := range v.Fields() {
		if f.Name == word {
			return f.Value, true
		}
	}
	return Value{}, false
}

// Any returns the value as plain Go data: strings, numbers, booleans, nil, []any
// and map[string]any.
func (v Value) Any() any {
	switch {
	case v.IsNull():
		return nil
	case v.IsList():
		list := []any{}
		for _, e := range v.elements() {
			list = append(list, e.Any())
		}
		return list
	case v.IsObject():
		object := map[string]any{}
		for _, f := range v.Fields() {
			object[f.Name] = f.Value.Any()
		}
		return object
	}
	var plain any
	if err := v.node.Native.Decode(&plain); err != nil {
		v.Fail("unreadable value "+text.Quote(v.node.Text), "put it in quotes")
	}
	if f, ok := plain.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		v.Fail("expected a number, found "+v.node.Text, "put it in quotes, or write a finite number")
		return nil
	}
	switch plain.(type) {
	case nil, bool, int, int64, uint64, float64, string:
		return plain
	}
	return v.node.Text // dates and other tags, as written in the file
}

// child returns the value of a node inside v, and follows an alias. It returns false if the file is
// too deep or has too many aliases.
func (v Value) child(n *Node) (Value, bool) {
	c := Value{doc: v.doc, node: n, depth: v.depth + 1, alias: v.alias}.resolved()
	if c.alias {
		v.doc.aliased++
	}
	switch {
	case v.doc.refused:
		return Value{}, false
	case c.depth > v.doc.depth():
		v.Fail(fmt.Sprintf("nested more than %d deep", v.doc.depth()), "nest less; perhaps an alias (*name) stands inside its own anchor (&name)")
		v.doc.refused = true
		return Value{}, false
	case v.doc.aliased > maxAliased:
		v.Fail(fmt.Sprintf("aliases (*name) repeat more than %d values", maxAliased), "write the values out, or use fewer aliases of aliases")
		v.doc.refused = true
		return Value{}, false
	}
	return c, true
}

// depth returns the deepest nesting of values.
func (doc *Document) depth() int {
	if doc.loose {
		return looseDepth
	}
	return maxDepth
}

func (v Value) resolved() Value {
	for v.node.Kind == Alias {
		v.node, v.alias = v.node.Target, true
	}
	return v
}

// kind returns the name of the value's type, for a fault.
func (v Value) kind() string {
	switch {
	case v.IsObject():
		return "an object of words and values"
	case v.IsList():
		return "a list"
	case v.IsNull():
		return "nothing"
	}
	switch v.node.Tag {
	case "!!str":
		return "the text " + text.Quote(v.node.Text)
	case "!!bool":
		return "the boolean " + v.node.Text
	case "!!int", "!!float":
		return "the number " + text.Quote(v.node.Text)
	}
	return text.Quote(v.node.Text)
}

// Field is one word of an object and its value.
type Field struct {
	Name  string
	Line  int
	Value Value
}

// Fields returns the fields of an object in their order, and then those that it merges in (<<). A
// duplicate word is a fault, and only its first field is returned. An empty value is an empty
// object.
func (v Value) Fields() []Field {
	if v.IsNull() {
		return nil
	}
	if !v.IsObject() {
		v.expected("an object of words and values", "write `word: value`, one a line")
		return nil
	}
	var own, merged []Field
	at := map[string]int{} // line of each word
	twice := func(name, value Value) {
		word := name.node.Text
		problem := fmt.Sprintf("%s stands twice, first in line %d", text.Quote(word), at[word])
		if !v.doc.loose {
			name.Fail(problem, "keep one of the two")
			return
		}
		i := slices.IndexFunc(own, func(f Field) bool { return f.Name == word })
		v.doc.Note(name.Line(), problem+"; "+own[i].replace(value), "keep one of the two")
	}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		name, ok1 := v.child(v.node.Content[i])
		value, ok2 := v.child(v.node.Content[i+1])
		switch {
		case !ok1 || !ok2:
			return nil
		case name.node.Tag == "!!merge":
			for _, m := range value.OneOrList() {
				merged = append(merged, m.Fields()...)
			}
		case name.node.Kind != Scalar:
			name.expected("a word", "write `word: value`")
		case at[name.node.Text] > 0:
			twice(name, value)
		default:
			at[name.node.Text] = name.Line()
			value.word = name.node.Text
			own = append(own, Field{name.node.Text, name.Line(), value})
		}
	}
	for _, f := range merged {
		if at[f.Name] == 0 {
			at[f.Name] = f.Line
			own = append(own, f)
		}
	}
	return own
}

// replace replaces the value, or joins both if they are objects, and returns a text for which of
// them it did.
func (f *Field) replace(value Value) string {
	value.word = f.Name
	old := f.Value
	if !old.IsObject() || !value.IsObject() {
		f.Value = value
		return "the second counts"
	}
	joined := *value.node
	joined.Content = slices.Concat(old.node.Content, value.node.Content)
	f.Value.node = &joined
	return "the two are joined"
}

// Words are the words of an object, each with the function that reads its value.
type Words map[string]func(Value)

// Object reads an object: it calls the function of each word, in the order of the file. An unknown
// word is a fault, with the nearest known word as a hint unless hints returns a better one. what
// names the object in faults, for example "a rate_limit". Object returns true if this is an object
// with known words only. Otherwise, a missing word may be a misspelled one.
func (v Value) Object(what string, words Words, hints ...func(word string) string) bool {
	all := v.IsObject() || v.IsNull()
	for _, f := range v.Fields() {
		if read, ok := words[f.Name]; ok {
			read(f.Value)
			continue
		}
		if v.doc.idle[f.Name] {
			v.doc.Note(f.Line, fmt.Sprintf("%s means nothing in %s", text.Quote(f.Name), what), "leave it out, or put it where it belongs")
			continue
		}
		all = false
		hint := ""
		for _, h := range hints {
			if hint == "" {
				hint = h(f.Name)
			}
		}
		if hint == "" {
			hint = nearestHint(f.Name, words)
		}
		v.doc.Fail(f.Line, fmt.Sprintf("unknown word %s in %s", text.Quote(f.Name), what), hint)
	}
	return all
}

// nearestHint returns a hint with the known word most similar to an unknown one, or with all words.
func nearestHint(word string, words Words) string {
	known := make([]string, 0, len(words))
	for w := range words {
		known = append(known, w)
	}
	slices.Sort(known)
	if near := Nearest(word, known); near != "" {
		if strings.EqualFold(near, word) {
			return fmt.Sprintf("write %q: words are in lower case", near)
		}
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "known here are " + strings.Join(known, ", ")
}

// Percentage returns the millionths of a percentage such as 10%, at least 1 and at most most. It returns 0 after a
// fault.
func (v Value) Percentage(most int64) int64 {
	number, percent := strings.CutSuffix(v.Text(), "%")
	f, err := strconv.ParseFloat(number, 64)
	millionths := math.Round(f * 1e4)
	if !percent || err != nil || !(millionths >= 1 && millionths <= float64(most)) {
		v.Fail(fmt.Sprintf("%s: %q is no part of a whole", v.Word(), v.Text()),
			fmt.Sprintf("write a percentage above 0%% and up to %d%%, such as 10%%", most/1e4))
		return 0
	}
	return int64(millionths)
}
