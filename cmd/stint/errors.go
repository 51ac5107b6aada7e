package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"stint"
	"stint/app/settings"
	"stint/internal/strictyaml"
	"stint/replay"
	"stint/replay/accesslog"
	"stint/rule"
)

// usageError is the error of wrong flags or arguments.
type usageError struct{ problem, hint string }

func (e *usageError) Error() string { return e.problem }

// errThreshold ends a command with status 99. The command has already printed which threshold was
// met.
var errThreshold = errors.New("a threshold was met")

// errFaults ends a command with status 1. The command has already printed the faults.
var errFaults = errors.New("faults were found")

// refusal is the error of an input that was refused, with a hint what to do.
type refusal struct{ problem, hint string }

func (e *refusal) Error() string { return e.problem }

// report prints an error, one line for each fault, followed by its hint. It returns the exit
// status.
func report(w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	switch {
	case errors.Is(err, errThreshold):
		return exitThreshold // already printed
	case errors.Is(err, errFaults):
		return exitRefused // already printed
	}
	printFaults(w, err)
	if _, ok := errors.AsType[*usageError](err); ok {
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
	case *usageError:
		printFault(w, "stint: "+e.problem, e.hint)
	case *refusal:
		printFault(w, e.problem, e.hint)
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

// parse parses flags. Its errors are usage errors with a hint.
func parse(flags *pflag.FlagSet, args []string) error {
	flags.SortFlags = false
	flags.Usage = func() {}
	err := flags.Parse(args)
	if err == nil {
		return nil
	}
	see := "see stint help " + flags.Name()
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		var names []string
		flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := strictyaml.Nearest(unknown.GetSpecifiedName(), names); near != "" {
			return &usageError{"unknown flag --" + unknown.GetSpecifiedName(), "is --" + near + " meant? " + upper(see)}
		}
		return &usageError{"unknown flag " + dashes(unknown.GetSpecifiedName()), see}
	case errors.As(err, &missing):
		return &usageError{"--" + missing.GetSpecifiedName() + " needs a value", "write --" + missing.GetSpecifiedName() + "=VALUE; " + see}
	case errors.As(err, &invalid):
		return invalidValue(invalid, see)
	default:
		return &usageError{err.Error(), see}
	}
}

// invalidValue converts the error of a refused value, and keeps its hint.
func invalidValue(e *pflag.InvalidValueError, see string) error {
	name, cause := "--"+e.GetFlag().Name, e.Unwrap()
	if config, ok := errors.AsType[*settings.Error](cause); ok {
		return &usageError{name + ": " + config.Problem, config.Hint}
	}
	return &usageError{name + ": " + cause.Error(), see}
}

func dashes(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func upper(see string) string { return "S" + see[1:] }
