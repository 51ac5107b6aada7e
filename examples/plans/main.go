// Command plans shows what a company that sells an API does with Stint: a free and a pro customer, a change
// of plan while the service runs, 80 % that arrives at a receiver, the usage, an override until tomorrow, and
// the audit trail.
//
//	go -C examples run ./plans
//
// It starts the service and a receiver of webhooks on this machine, prints each command with what it prints,
// and ends both. The rules are in rules.yaml. The status is 1 if a step has another outcome than it should.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"stint/examples/process"
)

// longest is how long all steps may take together.
const longest = time.Minute

// rules are the plans, and the rule that takes its limits from them.
//
//go:embed rules.yaml
var rules string

func main() {
	binary := flag.String("stint", "", "the service; built if it is not given")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, *binary)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "plans:", err)
		os.Exit(1)
	}
}

// run shows all steps. The service and the receiver have ended when it returns.
func run(ctx context.Context, out io.Writer, binary string) error {
	dir, err := os.MkdirTemp("", "stint-plans")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a folder that is left is in the temporary folder and does no harm
	if binary == "" {
		fmt.Fprintln(out, "Building the service ...")
		binary = filepath.Join(dir, "stint")
		if err := process.Build(ctx, binary); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	s := &shop{out: out, dir: dir, binary: binary}
	defer s.stop()
	if err := s.start(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		s.customers, s.changePlan, s.threshold, s.usage, s.override, s.audit,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// shop is a company that sells an API: its service, and its receiver of webhooks.
type shop struct {
	out      io.Writer
	dir      string // folder of all files
	binary   string
	service  *process.Process
	receiver *receiver
	failed   error // of the first call or command without the outcome that it should have
}

// start starts the receiver and the service.
func (s *shop) start(ctx context.Context) (err error) {
	if s.receiver, err = newReceiver(filepath.Join(s.dir, "shop.secret")); err != nil {
		return err
	}
	config := `rules: rules.yaml
records: records.db
state: counts
webhooks:
  - {name: shop, url: "` + s.receiver.url() + `", secret_file: shop.secret, allow_private: 127.0.0.1}
`
	for _, f := range [][2]string{{"rules.yaml", rules}, {"stint.yaml", config}} {
		if err := os.WriteFile(filepath.Join(s.dir, f[0]), []byte(f[1]), 0o600); err != nil {
			return err
		}
		fmt.Fprintf(s.out, "\n$ cat %s\n%s", f[0], f[1])
	}
	// Free ports, as a service may have the usual ones; the log is read for them.
	cmd := exec.Command(s.binary, "serve", "--config", "stint.yaml",
		"--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--grpc", "", "--resp", "", "--log-format", "json")
	cmd.Dir = s.dir
	if s.service, err = process.Start(cmd); err != nil {
		return err
	}
	if err := s.service.Await(ctx, func() bool { return s.service.Address("http") != "" && s.service.Address("admin") != "" }); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\n$ stint serve --config stint.yaml &\n$ export STINT_ADMIN=%s\n", s.service.Address("admin"))
	return nil
}

// stop ends the service and the receiver.
func (s *shop) stop() {
	if s.service != nil {
		s.service.Kill()
	}
	if s.receiver != nil {
		s.receiver.stop()
	}
}

// title prints what comes next.
func (s *shop) title(text string) { fmt.Fprintf(s.out, "\n# %s\n\n", text) }

// customers shows a customer of each plan: five calls of the free one pass.
func (s *shop) customers(ctx context.Context) error {
	s.title("Bob has the plan pro. Ann and Eve have none, so they have the default plan, free.")
	s.stint(ctx, "plans", "give", "--why", "order 4711", "pro", "user=bob")
	s.calls(ctx, "ann", 5, "allowed, 0 of 5 left")
	s.calls(ctx, "ann", 1, "denied (quota_exceeded), 0 of 5 left")
	s.calls(ctx, "eve", 2, "allowed, 3 of 5 left")
	s.calls(ctx, "bob", 6, "allowed, 994 of 1000 left")
	return s.failed
}

// changePlan shows that a change is in force at once, and that going up and down gives no fresh quota.
func (s *shop) changePlan(ctx context.Context) error {
	s.title("Ann buys pro while the service runs. What she used counts.")
	s.stint(ctx, "plans", "give", "--why", "order 4712", "pro", "user=ann")
	s.calls(ctx, "ann", 1, "allowed, 994 of 1000 left")
	s.title("She returns to free, and gets no second quota by that.")
	s.stint(ctx, "plans", "give", "--why", "cancelled 4712", "", "user=ann")
	s.calls(ctx, "ann", 1, "denied (quota_exceeded), 0 of 5 left")
	return s.failed
}

// threshold shows what arrived when a free customer had used 80 % and 100 %.
func (s *shop) threshold(ctx context.Context) error {
	s.title("Her fourth call was 80 % of the plan free, her fifth 100 %. The receiver verified the signatures of:")
	for _, percent := range []int{80, 100} {
		event, err := s.receiver.wait(ctx, "user=ann", percent)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "%s\n\n", event)
	}
	s.stint(ctx, "webhooks", "list")
	return s.failed
}

// usage shows the usage for the company and for the customer, as JSON and CSV.
func (s *shop) usage(ctx context.Context) error {
	s.title("Who used how much: in JSON, in CSV, and added up by plan. The plan is the one that was charged last.")
	s.stint(ctx, "usage", "--json", "user=ann")
	s.stint(ctx, "usage", "--csv")
	s.stint(ctx, "usage", "--plans")
	s.title("The customer sees her own, with her API key.")
	s.ownUsage(ctx)
	return s.failed
}

// override gives a customer another number until tomorrow.
func (s *shop) override(ctx context.Context) error {
	tomorrow := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	s.title("Support helps Ann out: 20 calls until tomorrow.")
	s.stint(ctx, "override", "--rule", "api/user", "--requests", "20", "--until", tomorrow.Format(time.RFC3339), "--why", "ticket 17", "user=ann")
	s.calls(ctx, "ann", 1, "allowed, 13 of 20 left")
	return s.failed
}

// audit shows the trail of all changes.
func (s *shop) audit(ctx context.Context) error {
	s.title("Who changed what, and why, newest first")
	s.stint(ctx, "audit", "show")
	s.stint(ctx, "audit", "verify")
	return s.failed
}

// stint runs a command and prints it with what it prints. It does nothing after a failure.
func (s *shop) stint(ctx context.Context, args ...string) string {
	if s.failed != nil {
		return ""
	}
	fmt.Fprintf(s.out, "$ stint %s\n", typed(args))
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Dir = s.dir
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "STINT_") }),
		"STINT_ADMIN="+s.service.Address("admin"))
	printed, err := cmd.CombinedOutput()
	fmt.Fprintf(s.out, "%s\n", printed)
	if err != nil {
		s.failed = errors.Join(fmt.Errorf("stint %s: %w", typed(args), err), ctx.Err())
	}
	return string(printed)
}

// typed returns arguments as a user types them in a shell.
func typed(args []string) string {
	words := slices.Clone(args)
	for i, w := range words {
		if w == "" || strings.Contains(w, " ") {
			words[i] = `"` + w + `"`
		}
	}
	return strings.Join(words, " ")
}
