// Package testkit has the helpers that tests of several packages share:
//
//   - testkit.go, machine.go, process_*.go: skipping, ports, processes, memory.
//   - golden.go compares results with files of expected results.
//   - frugal.go limits how much a decoder allocates for each byte of its input.
//   - authority.go signs certificates; browser.go runs a browser.
//   - redis*.go start real Redis servers, clusters and sentinels.
//   - tcpproxy.go is a TCP proxy that delays, jitters, stalls and cuts what it forwards, so that
//     a server on the same machine behaves like one some milliseconds away.
//   - pipes.go is a listener in memory, for tests in fake time.
//   - netns_linux.go makes networks in the kernel: their processes talk over links that the
//     test cuts, slows down and mends. Nothing of it leaves the machine.
//   - openloop.go puts load on a server as a network does.
//   - fleet*.go run nodes with one store, for tests of coordination.
//   - undecodable.go has a store that cannot decode some states, and checks that stores around
//     it report the right takes and decide all others.
//   - trace.go reads step tables: the decisions of a limit, step by step.
//   - respell*.go write a path in other spellings, for tests that these do not evade a limit.
//
// Programs that a test runs, their clients, and sample records and rules are in its subpackages.
package testkit
