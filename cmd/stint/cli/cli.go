// Package cli has the commands of stint that call the admin API of a service, and what all commands share:
// their streams, their errors with hints, and how they read flags.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/pflag"

	"stint/app/settings"
	"stint/cmd/stint/view"
	"stint/internal/strictyaml"
	"stint/internal/text"
)

// HelpWidth is the widest line of help.
const HelpWidth = 100

// Streams are the standard streams of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Fitted returns the standard output for lines that may be wider than a terminal.
func (s Streams) Fitted() io.Writer { return view.Fit(s.Out) }

// read reads a file, or standard input for the name -. More bytes than most are an error.
func (s Streams) read(name string, most int64) ([]byte, error) {
	in := s.In
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }() // it is only read
		in = file
	}
	content, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(content)) > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	return content, err
}

// Command is a command of stint.
type Command struct {
	Name    string
	Args    string   // its arguments, for help
	Summary string   // one line
	Text    string   // help text above the flags
	Words   []string // what its first argument may be; nil: anything
	Run     func(ctx context.Context, s Streams, args []string) error
	Flags   func() []FlagGroup // in the order of help; nil: none
}

// FlagGroup is a part of the flags of a command.
type FlagGroup struct {
	Title string         // line above them in help; "": none
	Verb  string         // the first argument that has them, such as create of stint keys; "": all
	Flags *pflag.FlagSet // may be empty
}

// OneGroup returns flags as a group without a title.
func OneGroup(flags *pflag.FlagSet) []FlagGroup {
	flags.SortFlags = false
	return []FlagGroup{{Flags: flags}}
}

// UsageError is the error of wrong flags or arguments.
type UsageError struct{ Problem, Hint string }

// Error returns the problem without the hint.
func (e *UsageError) Error() string { return e.Problem }

// Usage returns a [*UsageError].
func Usage(problem, hint string) error { return &UsageError{problem, hint} }

// Refusal is the error of an input that was refused, with a hint what to do.
type Refusal struct{ Problem, Hint string }

// Error returns the problem without the hint.
func (e *Refusal) Error() string { return e.Problem }

// Refuse returns a [*Refusal].
func Refuse(problem, hint string) error { return &Refusal{problem, hint} }

// ErrFaults ends a command with status 1. The command has already printed the faults.
var ErrFaults = errors.New("faults were found")

// Parse parses flags. Its errors are usage errors with a hint.
func Parse(flags *pflag.FlagSet, args []string) error {
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
			return Usage("unknown flag --"+unknown.GetSpecifiedName(), "is --"+near+" meant? "+upper(see))
		}
		return Usage("unknown flag "+dashes(unknown.GetSpecifiedName()), see)
	case errors.As(err, &missing):
		return Usage("--"+missing.GetSpecifiedName()+" needs a value", "write --"+missing.GetSpecifiedName()+"=VALUE; "+see)
	case errors.As(err, &invalid):
		return invalidValue(invalid, see)
	default:
		return Usage(err.Error(), see)
	}
}

// invalidValue converts the error of a refused value, and keeps its hint.
func invalidValue(e *pflag.InvalidValueError, see string) error {
	name, cause := "--"+e.GetFlag().Name, e.Unwrap()
	if config, ok := errors.AsType[*settings.Error](cause); ok {
		return Usage(name+": "+config.Problem, config.Hint)
	}
	if number, ok := errors.AsType[*strconv.NumError](cause); ok {
		kind := map[string]string{"ParseUint": "a whole number from 0", "ParseInt": "a whole number", "ParseFloat": "a number", "ParseBool": "true or false"}[number.Func]
		if kind != "" {
			return Usage(name+": "+text.Quote(number.Num)+" is not "+kind+", or is too large", see)
		}
	}
	return Usage(name+": "+cause.Error(), see)
}

func dashes(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func upper(see string) string { return "S" + see[1:] }
