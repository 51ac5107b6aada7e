// Package denials writes the log of denials: a sample of them, bounded in lines a second and in bytes, in
// memory and in files. It also reads it.
package denials
