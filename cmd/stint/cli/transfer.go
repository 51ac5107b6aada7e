package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"stint/cmd/stint/view"
)

// transferTimeout is the time limit of an import or an export.
const transferTimeout = 10 * time.Minute

func recordsCommand() Command {
	return group("records", "import, export and erase records",
		`Records are subjects (clients with their plans), overrides, bans, API keys and rules per API. status
shows how many there are, their revision, and which nodes have which. import and export read and
write all of them as CSV or JSON Lines; docs/records.md has the format. show prints all that is kept
of one subject; export SUBJECT is the same for programs. erase deletes it, in the audit trail too,
for good.

  stint records export --out records.jsonl
  stint records import --dry-run records.jsonl
  stint records import --kind ban --replace bans.csv
  stint records show user=42
  stint records erase user=42

Up to 10,000 changed records are imported as one change, all or none; some 4,000 where nodes share
them by Redis. More are several changes; if one of them fails, repeat the import. --dry-run prints
what would change, and changes nothing.
`+adminTextOf("write for import and erase; otherwise read"),
		verb{"status", "shows the state of the records", runRecordsStatus, (*adminCall).flagSet},
		verb{"import", "reads a file", runImport, new(transferOptions).importFlags},
		verb{"export", "writes a file", runExport, new(transferOptions).exportFlags},
		verb{"show", "shows one subject", runRecordsShow, (*adminCall).flagSet},
		verb{"erase", "erases one subject", runErase, (*adminCall).flagSet},
	)
}

// transferOptions are the flags of stint records.
type transferOptions struct {
	whyOptions
	kind, format, out      string
	replace, dryRun, force bool
}

func (o *transferOptions) exportFlags(c *adminCall, name string) *pflag.FlagSet {
	return c.textFlags(name, append(o.texts("only"), textFlag{&o.out, "out", "`FILE` to write (default: standard output)"})...)
}

// texts returns the flags of both directions.
func (o *transferOptions) texts(only string) []textFlag {
	return []textFlag{
		{&o.kind, "kind", only + " the `KIND` subject, override, ban, key, rule, plan or grant"},
		{&o.format, "format", "`FORMAT` csv or jsonl (default: by the end of the name, else jsonl)"},
	}
}

func (o *transferOptions) importFlags(c *adminCall, name string) *pflag.FlagSet {
	flags := c.textFlags(name, append([]textFlag{o.reason()}, o.texts("the file has only")...)...)
	flags.BoolVar(&o.replace, "replace", false, "delete the records that the file does not have, of its kind or of all kinds")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print what would change, and change nothing")
	flags.BoolVar(&o.force, "force", false, "accept bans of this machine, of trusted proxies and of very large networks")
	return flags
}

// formatOf returns the format of a file.
func (o *transferOptions) formatOf(name string) (string, error) {
	switch {
	case o.format == "csv", o.format == "jsonl":
		return o.format, nil
	case o.format != "":
		return "", Usage("--format "+o.format+": no such format", "write csv or jsonl")
	case strings.HasSuffix(name, ".csv"):
		return "csv", nil
	}
	return "jsonl", nil
}

func runImport(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	var o transferOptions
	flags := o.importFlags(&c, "records import")
	if err := prepare(flags, args, 1, "one file, or - for standard input", "stint records import --dry-run records.jsonl"); err != nil {
		return err
	}
	name, in := flags.Arg(0), &view.Transfer{In: s.In}
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return unreadable(err)
		}
		defer func() { _ = file.Close() }() // it is only read
		in.In, in.Size = file, view.Size(file)
	}
	format, err := o.formatOf(name)
	if err != nil {
		return err
	}
	kind := map[string]string{"csv": "text/csv", "jsonl": "application/jsonl"}[format]
	mode := map[bool]string{true: "replace"}[o.replace]
	one := map[bool]string{true: "1"}
	q := query("mode", mode, "kind", o.kind, "dry_run", one[o.dryRun], "force", one[o.force])
	done := view.Working(c.progress(s), in.Sent)
	status, text, err := c.read(ctx, call{
		method: http.MethodPost, path: "/v1/records/import?" + q, body: io.NopCloser(in), timeout: transferTimeout,
		header: map[string]string{"Content-Type": kind, "X-Stint-Why": o.why},
	})
	done()
	switch unread := in.Err(); {
	case unread != nil: // so the service has got a part, and changed nothing
		return unreadable(unread)
	case err == nil && status != http.StatusOK:
		err = refused(status, text)
	}
	if err != nil {
		return err
	}
	var answer view.Imported
	err = c.show(s.Out, text, &answer, answer.Print)
	for _, warning := range answer.Warnings {
		fmt.Fprintln(s.Err, "warning: "+warning)
	}
	return err
}

func unreadable(err error) error {
	return Refuse("cannot read the records: "+err.Error(), "name a file, or - for standard input")
}

func runExport(ctx context.Context, s Streams, args []string) (err error) {
	var c adminCall
	var o transferOptions
	flags := o.exportFlags(&c, "records export")
	if err := Parse(flags, args); err != nil {
		return err
	}
	format, err := o.formatOf(o.out)
	if err != nil {
		return err
	}
	path := "/v1/records/export?" + query("kind", o.kind, "format", format)
	switch {
	case flags.NArg() > 1, flags.NArg() == 1 && o.kind+o.format != "":
		return Usage("records export takes one subject, or --kind and --format", "write for example stint records export user=42")
	case flags.NArg() == 1:
		path = subjectPath(flags.Arg(0), "export")
	}
	in := new(view.Transfer)
	if o.out != "" || view.IsFile(s.Out) { // so it does not come between the records
		defer view.Working(c.progress(s), in.Received)()
	}
	answer, err := c.open(ctx, call{method: http.MethodGet, path: path, timeout: transferTimeout})
	if err != nil {
		return err
	}
	defer answer.done()
	if answer.status != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(answer.body, maxAnswer))
		if err != nil {
			return endedEarly(err)
		}
		return refused(answer.status, text)
	}
	in.In = answer.body
	if o.out == "" {
		return save(s.Out, in)
	}
	// API keys and clients are nobody else's business. A part of an export is never at the name.
	part := o.out + ".part"
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return Refuse("cannot write the records: "+err.Error(), "name a file in a folder where you may write")
	}
	if err := save(file, in); err != nil {
		_, _ = file.Close(), os.Remove(part) // err is what went wrong
		return err
	}
	if err := file.Close(); err != nil {
		return Refuse("cannot write the records: "+err.Error(), "check the disk")
	}
	return os.Rename(part, o.out)
}

// save copies an export.
func save(to io.Writer, from io.Reader) error {
	if _, err := io.Copy(to, from); err != nil {
		return Refuse("the export is not whole: "+err.Error(), "try again")
	}
	return nil
}

func subjectPath(subject, verb string) string {
	return "/v1/subjects/" + url.PathEscape(subject) + "/" + verb
}

func runErase(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	flags := c.flagSet("records erase")
	if err := prepare(flags, args, 1, "one subject", "stint records erase user=42"); err != nil {
		return err
	}
	text, err := c.change(ctx, http.MethodPost, subjectPath(flags.Arg(0), "erase"), nil, "")
	if err != nil {
		return err
	}
	var answer view.Erased
	return c.show(s.Out, text, &answer, answer.Print)
}

func runRecordsShow(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	flags := c.flagSet("records show")
	if err := prepare(flags, args, 1, "one subject", "stint records show user=42"); err != nil {
		return err
	}
	text, err := c.get(ctx, subjectPath(flags.Arg(0), "export"))
	if err != nil {
		return err
	}
	var answer view.Kept
	return c.show(s.Out, text, &answer, func(w io.Writer) { answer.Print(w, flags.Arg(0)) })
}

func runRecordsStatus(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	if err := prepare(c.flagSet("records status"), args, 0, "", ""); err != nil {
		return err
	}
	text, err := c.get(ctx, "/v1/records")
	if err != nil {
		return err
	}
	var answer view.Records
	return c.show(s.Out, text, &answer, answer.Print)
}
