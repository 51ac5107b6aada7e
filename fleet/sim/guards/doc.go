// Package guards has no code. Its tests attack, one by one, the guards that the bounds of the
// coordination modes need: by histories of the simulator that are written by hand, by callers at the
// same time, and by removing each guard from the code to see that a test detects it.
package guards
