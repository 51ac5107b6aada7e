package convert

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	// The adapter of Caddyfiles.
	_ "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"stint/rule/rulefile"
)

func init() {
	flags := flag.NewFlagSet("convert", flag.ExitOnError)
	flags.String("output", "", "")
	flags.String("rules", "", "")
	flags.String("store", "memory", "")
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "convert",
		Usage: "[--output <file>] [--rules <folder>] [--store <url>] <caddyfile>",
		Short: "Converts a Caddyfile of caddy-ratelimit to Stint",
		Long: `
Reads a Caddyfile with rate_limit, the directive of the module caddy-ratelimit,
and writes a Caddyfile and a folder of rule files of Stint with the same limits.

--output is the new Caddyfile, by default CADDYFILE.stint. --rules is the folder
of the rule files, by default "rules" beside it. Neither may exist. --store is
where counts are: memory, or redis://HOST:PORT for all nodes together.

If anything cannot be converted, each such line is printed with a hint, the exit
status is 1, and nothing is written.
`,
		Flags: flags,
		Func: func(fl caddycmd.Flags) (int, error) {
			if fl.NArg() != 1 {
				return caddy.ExitCodeFailedStartup, errors.New("convert needs one Caddyfile: stint-gateway convert CADDYFILE")
			}
			f := Files{Caddyfile: fl.Arg(0), Output: fl.String("output"), Rules: fl.String("rules"), Store: fl.String("store")}
			if err := f.Convert(os.Stdout, os.Stderr); err != nil {
				return caddy.ExitCodeFailedStartup, err
			}
			return caddy.ExitCodeSuccess, nil
		},
	})
}

// Files are the paths of a conversion.
type Files struct {
	Caddyfile string // to convert

	// Output is the new Caddyfile, "" for Caddyfile with the ending .stint. Rules is the folder of the
	// rule files, "" for the folder rules beside Output. Neither may exist.
	Output, Rules string

	// Store is the value of the option store: memory, or a URL.
	Store string
}

// Convert reads the Caddyfile and writes what it becomes. It writes nothing if there is an error. What
// it wrote is printed to out, notes are printed to notes.
func (f Files) Convert(out, notes io.Writer) error {
	if f.Output == "" {
		f.Output = f.Caddyfile + ".stint"
	}
	if f.Rules == "" {
		f.Rules = filepath.Join(filepath.Dir(f.Output), "rules")
	}
	text, err := os.ReadFile(f.Caddyfile)
	if err != nil {
		return err
	}
	for _, path := range []string{f.Output, f.Rules} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists; remove it, or choose other places with --output and --rules", path)
		}
	}
	result, err := Convert(Source{Text: text, File: f.Caddyfile, Rules: f.Rules, Store: f.Store})
	if err != nil {
		return err
	}
	if err := f.write(result); err != nil {
		return err
	}
	for _, n := range result.Notes {
		fmt.Fprintln(notes, n)
	}
	fmt.Fprintln(out, f.Output)
	for _, name := range slices.Sorted(maps.Keys(result.Rules)) {
		fmt.Fprintln(out, filepath.Join(f.Rules, name))
	}
	return nil
}

// write writes the rule files and the Caddyfile, after Caddy accepted the Caddyfile. It removes what it
// wrote if there is an error.
func (f Files) write(r Result) (err error) {
	if err := os.MkdirAll(f.Rules, 0o777); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(f.Rules))
		}
	}()
	for name, text := range r.Rules {
		if err := os.WriteFile(filepath.Join(f.Rules, name), text, 0o666); err != nil {
			return err
		}
	}
	if _, err := rulefile.Load(f.Rules); err != nil {
		return err
	}
	if _, _, err := caddyconfig.GetAdapter("caddyfile").Adapt(r.Caddyfile, map[string]any{"filename": f.Output}); err != nil {
		return fmt.Errorf("caddy does not accept the converted Caddyfile: %w", err)
	}
	file, err := os.OpenFile(f.Output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = file.Write(r.Caddyfile)
	if err = errors.Join(err, file.Close()); err != nil {
		err = errors.Join(err, os.Remove(f.Output))
	}
	return err
}
