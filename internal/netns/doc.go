// Package netns gives tests networks of their own, of the kernel's: processes in them talk
// over links that the test cuts, slows down and mends. Nothing of it leaves the machine.
package netns
