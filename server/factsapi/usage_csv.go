package factsapi

import (
	"encoding/csv"
	"net/http"
	"strconv"
	"strings"
	"time"

	"stint"
	"stint/internal/jsonbody"
	"stint/internal/text"
)

// wantsCSV reports whether the answer is to be CSV: by the parameter format, or by the header Accept.
func wantsCSV(format string, accept []string) (bool, *jsonbody.Fault) {
	switch format {
	case "csv":
		return true, nil
	case "json":
		return false, nil
	case "":
		return strings.HasPrefix(strings.TrimSpace(strings.Join(accept, ",")), "text/csv"), nil
	}
	return false, jsonbody.Bad("format", "unknown", "write json or csv")
}

// writeCSV answers with lines of CSV. each calls write for each line until that returns an error.
func writeCSV(w http.ResponseWriter, head []string, each func(write func(line []string) error)) {
	w.Header().Set("Content-Type", "text/csv; charset=utf-8; header=present")
	w.Header().Set("Vary", "Accept")
	out := csv.NewWriter(w)
	_ = out.Write(head) // an error means that the client is gone
	each(out.Write)
	out.Flush()
}

// cell returns a text as a cell in which no spreadsheet finds a formula.
func cell(value string) string { return text.GuardFormulas(value) }

var rowHead = []string{"id", "domain", "rule", "limit", "subject", "plan", "start", "end", "used", "open"}

// writeRowsCSV answers with rows as CSV.
func (a *usageAPI) writeRowsCSV(w http.ResponseWriter, rows []row, now stint.Instant) {
	writeCSV(w, rowHead, func(write func(line []string) error) {
		for i := range rows {
			r := a.usageRow(&rows[i], now)
			err := write([]string{
				r.ID, cell(r.Domain), cell(r.Rule), cell(r.Limit), cell(r.Subject), cell(r.Plan), r.Start.Format(time.RFC3339), r.End.Format(time.RFC3339),
				strconv.FormatUint(r.Used, 10), strconv.FormatBool(r.Open),
			})
			if err != nil {
				return
			}
		}
	})
}

var totalHead = []string{"plan", "domain", "rule", "limit", "start", "end", "subjects", "used", "open"}

// writeTotals answers with totals as CSV.
func writeTotals(w http.ResponseWriter, all []UsageTotal) {
	writeCSV(w, totalHead, func(write func(line []string) error) {
		for i := range all {
			t := &all[i]
			_ = write([]string{
				cell(t.Plan), cell(t.Domain), cell(t.Rule), cell(t.Limit), t.Start.Format(time.RFC3339), t.End.Format(time.RFC3339),
				strconv.Itoa(t.Subjects), strconv.FormatUint(t.Used, 10), strconv.FormatBool(t.Open),
			})
		}
	})
}
