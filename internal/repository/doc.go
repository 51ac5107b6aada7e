// Package repository checks the rules of this repository, with tests that fail with the reason.
//
// Each rule is a function from the parsed source tree to faults. The rules run on the repository
// itself, and on small trees that break them, which proves that the rules detect that.
package repository
