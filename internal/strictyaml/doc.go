// Package strictyaml reads documents in which every word must be known, and reports all
// that is wrong at once, each fault with its line and a hint.
//
// A document is walked with [Value]: a reader asks for what it expects (an object
// of known words, a list, a text, a number), and whatever else stands there becomes
// a [Fault] while the reading goes on with a zero value. So a parser is written as
// if its input were right, and asks for the faults when it is done:
//
//	doc := parser.Parse(data)
//	doc.Root().Object("the file", strictyaml.Words{
//		"name":  func(v strictyaml.Value) { c.Name = v.Text() },
//		"ports": func(v strictyaml.Value) { for _, p := range v.List() { c.Ports = append(c.Ports, p.Uint(65535)) } },
//	})
//	if faults := doc.Faults(); len(faults) > 0 { ... }
//
// Words may stand once. Anchors, aliases and merge keys work; aliases that blow up
// a small file are refused. Package parser is the one that reads bytes.
package strictyaml
