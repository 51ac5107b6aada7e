package dashboard

import (
	"errors"
	"net/http"
	"os"
	"slices"

	"stint/internal/jsonbody"
	"stint/internal/text"
	"stint/rule"
	"stint/rule/audit"
)

// maxText is the most bytes of a rule file that are shown.
const maxText = 1 << 20

// ruleTexts handles RuleTextPath.
type ruleTexts struct{ options Options }

// textAnswer is the answer to GET /v1/rule-text.
type textAnswer struct {
	// InForce is whether the files are the rules in force. If they have errors, or were changed a
	// moment ago, earlier rules are in force.
	InForce bool       `json:"in_force"`
	Files   []textFile `json:"files"`
}

// textFile is one file and what is wrong with it.
type textFile struct {
	Name string `json:"name"`
	Text string `json:"text"` // "" for files of lists and keys, and if Problem says so

	// Problem is why the text is not shown; "" if it is.
	Problem string      `json:"problem,omitempty"`
	Faults  []textFault `json:"faults"`
}

// textFault is a fault or a likely mistake in a file.
type textFault struct {
	Line     int    `json:"line"` // 0 for no line
	Severity string `json:"severity"`
	Rule     string `json:"rule,omitempty"`
	Problem  string `json:"problem"`
	Hint     string `json:"hint"`
}

// ServeHTTP answers with the rule files as they are now, and what stint check finds in them.
func (t *ruleTexts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		jsonbody.RefuseMethod(w, r, "GET", "HEAD")
		return
	}
	if _, f := jsonbody.Query(r, 0); f != nil {
		f.Write(w)
		return
	}
	jsonbody.WriteJSON(w, http.StatusOK, t.answer())
}

// answer reads the files.
func (t *ruleTexts) answer() textAnswer {
	a := textAnswer{Files: []textFile{}}
	var present *rule.Table
	if t.options.Table != nil {
		present = t.options.Table()
	}
	table, err := present, error(nil)
	if t.options.Load != nil {
		table, err = t.options.Load()
	}
	var lists []string
	if faults, ok := errors.AsType[*rule.Errors](err); ok {
		lists = faults.Files
		a.list(present)
		for _, e := range faults.List {
			a.add(e.File, textFault{e.Line, audit.Error.String(), "", e.Problem, e.Hint})
		}
	} else if table != nil {
		lists = table.Files()
		a.InForce = present != nil && present.Hash() == table.Hash()
		a.list(table)
		for _, f := range audit.Table(table) {
			a.add(f.File, textFault{f.Line, f.Severity.String(), f.Rule, f.Text, f.Hint})
		}
	}
	for i := range a.Files {
		if f := &a.Files[i]; slices.Contains(lists, f.Name) {
			f.Problem = "a file of a list or of keys"
		} else {
			f.read()
		}
	}
	return a
}

// list adds the files of a table.
func (a *textAnswer) list(t *rule.Table) {
	if t == nil {
		return
	}
	for _, d := range t.Domains() {
		a.file(d.File())
		for _, n := range d.Nodes() {
			a.file(n.File)
		}
	}
	for _, r := range t.Rules() {
		a.file(r.File)
	}
}

// file returns the file with a name, and adds it if there is none.
func (a *textAnswer) file(name string) *textFile {
	for i := range a.Files {
		if a.Files[i].Name == name {
			return &a.Files[i]
		}
	}
	a.Files = append(a.Files, textFile{Name: name, Faults: []textFault{}})
	return &a.Files[len(a.Files)-1]
}

func (a *textAnswer) add(name string, f textFault) {
	one := a.file(name)
	one.Faults = append(one.Faults, f)
}

// read reads the text of a file.
func (f *textFile) read() {
	info, err := os.Stat(f.Name)
	switch {
	case err != nil:
		f.Problem = "cannot read it: " + text.Cause(err)
		return
	case !info.Mode().IsRegular() || info.Size() > maxText:
		f.Problem = "not a file, or longer than " + text.FormatSize(maxText)
		return
	}
	data, err := os.ReadFile(f.Name)
	if err != nil {
		f.Problem = "cannot read it: " + text.Cause(err)
		return
	}
	f.Text = string(data)
}
