// Package strictyaml reads documents in which only known words are allowed, and reports all faults
// at once, each with its line and a hint.
//
// A reader walks a document with [Value]: it asks for the type that it expects (an object of known
// words, a list, a text, a number). A value of another type becomes a [Fault], and reading
// continues with a zero value. So a parser can treat all input as valid, and check the faults at
// the end:
//
//	doc := parser.Parse(data)
//	doc.Root().Object("the file", strictyaml.Words{
//	"name":  func(v strictyaml.Value) { c.Name = v.Text() },
//	"ports": func(v strictyaml.Value) { for _, p := range v.List() { c.Ports = append(c.Ports, p.Uint(65535)) } },
//	})
//	if faults := doc.Faults(); len(faults) > 0 { ... }
//
// Each word may appear once in an object. Anchors, aliases and merge keys work; a small file that
// aliases make huge is refused. Package parser reads the bytes.
package strictyaml
