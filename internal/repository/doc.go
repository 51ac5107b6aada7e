// Package repository holds the rules of this repository, as tests that fail with the reason.
//
// Each rule is a function from the parsed source tree to faults. The rules run on
// the repository itself, and on small trees that break them, which proves that
// they see what they should.
package repository
