package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"stint/cmd/stint/cli"
	"stint/cmd/stint/manual"
	"stint/internal/testkit"
)

// spoken is what a user may type: a command, a verb or "", and the flags that they have.
type spoken struct {
	command, verb string
	flags         []string
}

// spokenWords lists all commands and flags from the same sets that parse them.
func spokenWords() []spoken {
	var all []spoken
	for _, c := range commands() {
		verbs := []string{""}
		var groups []cli.FlagGroup
		if c.Flags != nil {
			groups = c.Flags()
		}
		if slices.ContainsFunc(groups, func(g cli.FlagGroup) bool { return g.Verb != "" }) {
			verbs = c.Words
		}
		for _, verb := range verbs {
			s := spoken{c.Name, verb, []string{"help"}}
			for _, g := range groups {
				if g.Verb == "" || g.Verb == verb {
					g.Flags.VisitAll(func(f *pflag.Flag) { s.flags = append(s.flags, f.Name) })
				}
			}
			slices.Sort(s.flags)
			all = append(all, s)
		}
	}
	return all
}

// script writes the completion for a shell into a file.
func script(t *testing.T, shell string) string {
	t.Helper()
	if _, err := exec.LookPath(shell); err != nil {
		testkit.SkipOrFail(t, shell+" is not installed")
	}
	name := filepath.Join(t.TempDir(), "completion."+shell)
	if err := os.WriteFile(name, manual.Completion(shell, commands()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(shell, "-n", name).CombinedOutput(); err != nil {
		t.Fatalf("%s -n: %v\n%s", shell, err, out)
	}
	return name
}

// words returns the first word of each line, sorted, without what begins otherwise than prefix.
func words(out []byte, prefix string) []string {
	var all []string
	for line := range strings.Lines(string(out)) {
		if name, is := strings.CutPrefix(line, prefix); is {
			all = append(all, strings.Fields(name)[0])
		}
	}
	slices.Sort(all)
	return all
}

// TestBashCompletion asks bash to complete every command and flag.
func TestBashCompletion(t *testing.T) {
	name := script(t, "bash")
	ask := func(line ...string) []byte {
		t.Helper()
		lines := fmt.Sprintf(`source %s; COMP_WORDS=(%s ""); COMP_CWORD=%d; COMP_WORDS[COMP_CWORD]=$1; _stint; printf '%%s\n' "${COMPREPLY[@]}"`,
			name, strings.Join(line, " "), len(line))
		out, err := exec.Command("bash", "-uc", lines, "bash", map[bool]string{true: "--"}[len(line) > 1]).Output()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	var names []string
	for _, c := range commands() {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	if got := words(ask("stint"), ""); !slices.Equal(got, slices.Sorted(slices.Values(append(names, "help")))) {
		t.Errorf("commands: %v, want %v and help", got, names)
	}
	for _, s := range spokenWords() {
		if got := words(ask(strings.Fields("stint "+s.command+" "+s.verb)...), "--"); !slices.Equal(got, s.flags) {
			t.Errorf("stint %s %s: completes %v, want %v", s.command, s.verb, got, s.flags)
		}
	}
}

// TestFishCompletion asks fish to complete every command and flag.
func TestFishCompletion(t *testing.T) {
	name := script(t, "fish")
	all := spokenWords()
	var questions strings.Builder
	fmt.Fprintf(&questions, "source %s\n", name)
	for _, s := range all {
		fmt.Fprintf(&questions, "echo '== %s %s'\ncomplete -C 'stint %s '\ncomplete -C 'stint %s %s --'\n", s.command, s.verb, s.command, s.command, s.verb)
	}
	fish := exec.Command("fish", "--no-config", "-c", questions.String())
	fish.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := fish.Output()
	if err != nil {
		t.Fatal(err)
	}
	answers := strings.Split(string(out), "== ")[1:]
	if len(answers) != len(all) {
		t.Fatalf("%d answers for %d commands", len(answers), len(all))
	}
	for i, s := range all {
		if got := words([]byte(answers[i]), "--"); !slices.Equal(got, s.flags) {
			t.Errorf("stint %s %s: completes %v, want %v", s.command, s.verb, got, s.flags)
		}
		if s.verb != "" && !strings.Contains(answers[i], "\n"+s.verb+"\n") {
			t.Errorf("stint %s: does not complete %s", s.command, s.verb)
		}
	}
}

// TestZshCompletion checks that zsh can read its completion, and that it names every command and
// flag.
func TestZshCompletion(t *testing.T) {
	data, err := os.ReadFile(script(t, "zsh"))
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(data), "case $command in\n")
	for _, s := range spokenWords() {
		_, part, found := strings.Cut(body, "\t"+s.command+")\n")
		part, _, _ = strings.Cut(part, "\n\t\t;;\n")
		if s.verb != "" {
			_, part, _ = strings.Cut(part, "\t\t"+s.verb+")\n")
			part, _, _ = strings.Cut(part, "\n\t\t\t;;")
		}
		for _, flag := range s.flags {
			if !found || !strings.Contains(part, "'*--"+flag+"[") && !strings.Contains(part, "'*--"+flag+"=[") {
				t.Errorf("stint %s %s: does not complete --%s", s.command, s.verb, flag)
			}
		}
	}
}

// TestManualPages writes the manual pages, checks them with mandoc, and looks for every command,
// flag and exit status in what it shows.
func TestManualPages(t *testing.T) {
	if _, err := exec.LookPath("mandoc"); err != nil {
		testkit.SkipOrFail(t, "mandoc is not installed")
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dir := filepath.Join(t.TempDir(), "man1")
	if status := run(t.Context(), cli.Streams{Out: t.Output(), Err: t.Output()}, []string{"man", dir}); status != exitOK {
		t.Fatal("status", status)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) != len(commands())+2 {
		t.Fatalf("%d pages for %d commands, stint and help: %v", len(pages), len(commands()), err)
	}
	if out, err := exec.Command("mandoc", append([]string{"-Tlint", "-W", "warning"}, pages...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("mandoc: %v\n%s", err, out)
	}
	show := func(page string) string {
		t.Helper()
		out, err := exec.Command("mandoc", "-Tascii", "-O", "width=400", filepath.Join(dir, page)).Output()
		if err != nil {
			t.Fatal(err)
		}
		bare := exec.Command("col", "-b")
		bare.Stdin = strings.NewReader(string(out))
		if out, err = bare.Output(); err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	top := show("stint.1")
	if !strings.Contains(top, "November 14, 2023") {
		t.Errorf("the date is not SOURCE_DATE_EPOCH:\n%s", top)
	}
	for _, s := range exitStatuses {
		if !strings.Contains(top, s.Meaning) {
			t.Errorf("stint.1: does not explain exit status %d", s.Code)
		}
	}
	shown := map[string]string{}
	for _, s := range spokenWords() {
		if !strings.Contains(top, "stint-"+s.command+"(1)") {
			t.Errorf("stint.1: does not name %s", s.command)
		}
		if shown[s.command] == "" {
			shown[s.command] = show("stint-" + s.command + ".1")
		}
		for _, flag := range s.flags {
			if !slices.Contains(strings.Fields(shown[s.command]), "--"+flag) {
				t.Errorf("stint-%s.1: does not explain --%s", s.command, flag)
			}
		}
	}
}

// TestExitStatuses checks that docs/service.md lists the exit statuses that the commands use.
func TestExitStatuses(t *testing.T) {
	page, err := os.ReadFile("../../docs/service.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## Exit statuses\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| status") {
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	var want []string
	for _, s := range exitStatuses {
		want = append(want, fmt.Sprintf("| %d | %s |", s.Code, s.Meaning))
	}
	if !slices.Equal(rows, want) {
		t.Errorf("docs/service.md lists %q, want %q", rows, want)
	}
}
