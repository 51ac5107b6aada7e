package replay

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"stint/facts/advice"
	"stint/internal/text"
	"stint/internal/web"
	"stint/replay/whatif"
)

// The parts of the page, beside uplot, which draws the charts. All are embedded, so the page loads
// nothing from the network.
//
//go:embed page/page.html page/page.css page/page.js
var pageFiles embed.FS

var pageTemplate = template.Must(template.ParseFS(pageFiles, "page/page.html"))

// pageText returns an embedded file of the page.
func pageText(name string) string {
	b, err := pageFiles.ReadFile("page/" + name)
	if err != nil {
		panic(err) // cannot happen: the file is embedded
	}
	return string(b)
}

// page is the data of the template.
type page struct {
	*Report
	MostCompared int64 // the largest number denied by one algorithm
	MostOfClient int64 // the largest number of lines of a listed client
}

// WriteHTML writes the report as one self-contained page with charts, styles and scripts. Text from
// the log is escaped.
func (r *Report) WriteHTML(w io.Writer) error {
	p := page{Report: r}
	for _, c := range r.Comparison {
		p.MostCompared = max(p.MostCompared, c.Denied)
	}
	for _, c := range r.Clients {
		p.MostOfClient = max(p.MostOfClient, c.Allowed+c.Denied)
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, &p); err != nil {
		return fmt.Errorf("replay: page: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Title returns the title of the page.
func (p *page) Title() string {
	if p.Limit == "" {
		return "Replay of an access log by rules"
	}
	return "Replay of an access log: " + p.Limit
}

// Sentence returns the headline, with non-breaking spaces before percent signs.
func (p *page) Sentence() string { return strings.ReplaceAll(p.Headline(), " %", "\u00a0%") }

// TimeSpan returns the time span as in the text report.
func (p *page) TimeSpan() string { return p.timeSpan() }

// ClientsTitle returns the title of the client list as in the text report.
func (p *page) ClientsTitle() string { return p.clientsTitle() }

// SamplesTitle returns the title of the unparseable lines as in the text report.
func (p *page) SamplesTitle() string { return p.samplesTitle() }

// BucketName returns the width of a point in the charts.
func (p *page) BucketName() string {
	n, unit := p.Series.Width, "second"
	for _, larger := range []struct {
		factor int64
		unit   string
	}{{60, "minute"}, {60, "hour"}, {24, "day"}} {
		if n%larger.factor != 0 {
			break
		}
		n, unit = n/larger.factor, larger.unit
	}
	if n == 1 {
		return unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

// Number formats a number with commas.
func (p *page) Number(n int64) string { return text.Thousands(n) }

// Sum adds two numbers.
func (p *page) Sum(a, b int64) int64 { return a + b }

// Percent returns part as a percentage of whole, as text.
func (p *page) Percent(part, whole int64) string { return text.Percent(part, whole) }

// Share returns part as a percentage of whole, for the width of a bar.
func (p *page) Share(part, whole int64) string {
	if whole == 0 {
		return "0"
	}
	return fmt.Sprintf("%.2f", 100*float64(part)/float64(whole))
}

// Advised reports whether advice was asked for.
func (p *page) Advised() bool { return p.Advice != nil }

// NoAdvice says why there is no advice.
func (p *page) NoAdvice() string { return advice.None }

// Ratio returns a share as a percentage, as text.
func (p *page) Ratio(share float64) string { return fmt.Sprintf("%g %%", 100*share) }

// KeyNoun returns the plural of what the limits count.
func (p *page) KeyNoun() string { return p.keyNoun() }

// Curves returns the curves, for the charts; never nil, which would be null in the script.
func (p *page) Curves() []*whatif.Curve { return append([]*whatif.Curve{}, p.Sweep...) }

// Shadow returns the mark of a rule that denies nobody.
func (p *page) Shadow(rule string) string { return p.shadowMark(rule) }

// ByClient reports whether the list shows clients.
func (p *page) ByClient() bool { return p.ClientKind == fieldNouns[ByIP][1] }

// ChartScript returns uplot. It and the other parts are embedded; nothing in them comes from a log.
func (p *page) ChartScript() template.JS { return template.JS(web.ChartScript()) }

// ChartStyle returns the style sheet of uplot.
func (p *page) ChartStyle() template.CSS { return template.CSS(web.ChartStyle()) }

// Script returns the script that draws the charts.
func (p *page) Script() template.JS { return template.JS(pageText("page.js")) }

// Style returns the style sheet of the page.
func (p *page) Style() template.CSS { return template.CSS(pageText("page.css")) }
