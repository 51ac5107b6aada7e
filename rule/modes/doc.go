// Package modes returns what each rule may admit beyond its limit by its coordination, and while the
// store is away. `stint check --modes` prints it.
package modes
