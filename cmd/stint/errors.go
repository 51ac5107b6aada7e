package main

import (
	"errors"
	"fmt"
	"io"

	"stint"
	"stint/app/settings"
	"stint/cmd/stint/bench"
	"stint/cmd/stint/cli"
	"stint/replay"
	"stint/replay/accesslog"
	"stint/rule"
)

// errThreshold ends a command with status 99. The command has already printed which threshold was
// met.
var errThreshold = errors.New("a threshold was met")

// report prints an error, one line for each fault, followed by its hint. It returns the exit
// status.
func report(w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	switch {
	case errors.Is(err, errThreshold) || errors.Is(err, bench.ErrExceeded):
		return exitThreshold // already printed
	case errors.Is(err, cli.ErrInterrupted):
		return exitInterrupted // already printed
	case errors.Is(err, cli.ErrFaults):
		return exitRefused // already printed
	}
	printFaults(w, err)
	if _, ok := errors.AsType[*cli.UsageError](err); ok {
		return exitUsage
	}
	return exitRefused
}

// printFaults prints every fault in err.
func printFaults(w io.Writer, err error) {
	switch e := err.(type) { //nolint:errorlint // joined errors are split by hand
	case *rule.Errors:
		for _, one := range e.List {
			printFaults(w, one)
		}
	case *rule.Error:
		printFault(w, placeOf(e.File, e.Line)+": "+e.Problem, e.Hint)
	case *failedTests:
		printFaults(w, e.error)
	case *settings.Error:
		printFault(w, e.Error(), e.Hint)
	case *stint.SpecError:
		printFault(w, e.Error(), e.Hint)
	case *accesslog.InputError:
		printFault(w, e.Error(), e.Hint)
	case *replay.UnreadableError:
		printFault(w, e.Error(), e.Hint)
	case *cli.UsageError:
		printFault(w, "stint: "+e.Problem, e.Hint)
	case *cli.Refusal:
		printFault(w, e.Problem, e.Hint)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			printFaults(w, one)
		}
	default:
		printFault(w, "stint: "+err.Error(), "")
	}
}

func printFault(w io.Writer, problem, hint string) {
	if hint == "" {
		hint = "see stint help"
	}
	fmt.Fprintf(w, "%s\nhint: %s\n", problem, hint)
}

func placeOf(file string, line int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}
