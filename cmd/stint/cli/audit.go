package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"stint/cmd/stint/view"
	"stint/records"
	"stint/records/trail"
	"stint/server/access"
)

func auditCommand() Command {
	return group("audit", "show and verify who changed what",
		`Shows who changed or reset what, from where and why, newest first; or verifies that no entry of the
audit trail was changed, removed or added later.

  stint audit show --subject user=42 --since 7d
  stint audit show --rule api/user
  stint audit verify --head 120:6c1f...
  stint audit verify --file records.db

--head is the number and the hash of an entry that was written down earlier, for example from the
log: it finds that the end of the trail was cut off. --file verifies a file of records that no
service has open. The exit status of verify is 1 if the trail is not whole.
`+adminTextFor(access.Read),
		verb{"show", "prints entries", runAuditShow, new(auditOptions).showFlags},
		verb{"verify", "verifies all of them", runAuditVerify, new(auditOptions).verifyFlags},
	)
}

// auditOptions are the flags of stint audit.
type auditOptions struct {
	subject, rule, who, since string
	limit                     int
	before, file              string
	heads                     []string
}

func (o *auditOptions) showFlags(c *adminCall, name string) *pflag.FlagSet {
	flags := c.textFlags(name,
		textFlag{&o.subject, "subject", "only those about `KEY=VALUE`, an address or a network"},
		textFlag{&o.rule, "rule", "only those about the rule `NAME`"},
		textFlag{&o.who, "who", "only those of the caller `NAME`"},
		textFlag{&o.since, "since", "only those since `TIME`, or of the last 1h, 7d or 2w"})
	flags.IntVar(&o.limit, "limit", 100, "print at most `N` of them, up to 1000")
	return texts(flags, textFlag{&o.before, "before", "only those before the entry `NUMBER`"})
}

func (o *auditOptions) verifyFlags(c *adminCall, name string) *pflag.FlagSet {
	flags := c.flagSet(name)
	flags.StringSliceVar(&o.heads, "head", nil, "`NUMBER:HASH` that was written down earlier; may be repeated")
	return texts(flags, textFlag{&o.file, "file", "`FILE` of records to verify, instead of those of a service"})
}

func runAuditShow(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	var o auditOptions
	if err := prepare(o.showFlags(&c, "audit show"), args, 0, "", ""); err != nil {
		return err
	}
	path := "/v1/audit?" + query("subject", o.subject, "rule", o.rule, "who", o.who, "since", o.since, "limit", strconv.Itoa(o.limit), "before", o.before)
	answer, err := c.get(ctx, path)
	if err != nil {
		return err
	}
	var page view.Audit
	return c.show(s.Out, answer, &page, page.Print)
}

func runAuditVerify(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	var o auditOptions
	if err := prepare(o.verifyFlags(&c, "audit verify"), args, 0, "", ""); err != nil {
		return err
	}
	var answer []byte
	var err error
	if o.file != "" {
		answer, err = o.verifyFile(ctx)
	} else {
		answer, err = c.get(ctx, "/v1/audit/verify?"+query("head", strings.Join(o.heads, ",")))
	}
	if err != nil {
		return err
	}
	var report struct {
		Whole bool
		trail.Report
	}
	if err := json.Unmarshal(answer, &report); err != nil {
		return Refuse("cannot decode the answer of the service: "+err.Error(), "use --json to print it unchanged")
	}
	err = c.show(s.Out, answer, &report, func(w io.Writer) {
		switch {
		case report.Break != nil:
			fmt.Fprintf(w, "broken: %v\nwhole\tup to entry %d\n", report.Break, report.Head.Number)
			return
		case report.First == 0:
			fmt.Fprintln(w, "whole: the audit trail is empty")
			return
		}
		fmt.Fprintf(w, "whole\tentries %d to %d, texts of %d erased\nhead\t%s\n", report.First, report.Head.Number, report.Erased, report.Head)
		for _, head := range report.Skipped {
			fmt.Fprintf(w, "skipped\t%s: its entry was dropped because of its age\n", head)
		}
	})
	if err == nil && !report.Whole {
		return ErrFaults // the place is already printed
	}
	return err
}

// verifyFile verifies the audit trail of a file, and returns the answer that a service would give.
func (o *auditOptions) verifyFile(ctx context.Context) ([]byte, error) {
	var known []trail.Head
	for _, written := range o.heads {
		head, err := trail.ParseHead(written)
		if err != nil {
			return nil, Usage("--head: "+err.Error(), "write it as verify prints it")
		}
		known = append(known, head)
	}
	switch info, err := os.Stat(o.file); {
	case err != nil:
		return nil, Refuse("--file: "+err.Error(), "name a file of records")
	case info.Size() == 0:
		return nil, Refuse("--file: "+o.file+" is empty: it has no audit trail", "name a file of records; if this was one, put back a copy of it")
	}
	file, err := records.Open(o.file, records.Options{})
	if err != nil {
		return nil, recordsError(err)
	}
	defer func() { _ = file.Close() }() // it is only read
	report, err := file.Verify(ctx, known...)
	if err != nil {
		return nil, recordsError(err)
	}
	return json.Marshal(struct {
		Whole bool `json:"whole"`
		trail.Report
	}{report.Break == nil, report})
}

// recordsError returns the error for one of a file of records.
func recordsError(err error) error {
	if fault, ok := errors.AsType[*records.Error](err); ok {
		return Refuse(fault.Error(), fault.Hint)
	}
	return err
}
