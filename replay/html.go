package replay

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"strings"
)

// The page and its parts. uplot draws the charts; it is embedded, so the page loads
// nothing from anywhere.
//
//go:embed page/page.html page/page.css page/page.js
//go:embed page/uplot/uPlot.iife.min.js page/uplot/uPlot.min.css page/uplot/LICENSE
var pageFiles embed.FS

var pageTemplate = template.Must(template.ParseFS(pageFiles, "page/page.html"))

// pageText returns a file of the page.
func pageText(name string) string {
	b, err := pageFiles.ReadFile("page/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(b)
}

// page is what the template is filled with.
type page struct {
	*Report
	MostCompared int64 // the most that an algorithm denied
	MostOfClient int64 // the most lines of a listed client
}

// WriteHTML writes the report as one page that needs nothing else: charts, styles
// and script are inside. What comes from the log is escaped.
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

// Title stands on the tab of the browser.
func (p *page) Title() string {
	if p.Limit == "" {
		return "Replay of an access log by rules"
	}
	return "Replay of an access log: " + p.Limit
}

// Sentence is the headline, with what belongs together on one line.
func (p *page) Sentence() string { return strings.ReplaceAll(p.Headline(), " %", "\u00a0%") }

// TimeSpan is that of the text form.
func (p *page) TimeSpan() string { return p.timeSpan() }

// ClientsTitle is that of the text form.
func (p *page) ClientsTitle() string { return p.clientsTitle() }

// SamplesTitle is that of the text form.
func (p *page) SamplesTitle() string { return p.samplesTitle() }

// BucketName is how long a point of the charts is.
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

// Number writes a number with commas.
func (p *page) Number(n int64) string { return thousands(n) }

// Sum adds two numbers.
func (p *page) Sum(a, b int64) int64 { return a + b }

// Percent is a part of a whole in words.
func (p *page) Percent(part, whole int64) string { return percent(part, whole) }

// Share is a part of a whole for the width of a bar.
func (p *page) Share(part, whole int64) string {
	if whole == 0 {
		return "0"
	}
	return fmt.Sprintf("%.2f", 100*float64(part)/float64(whole))
}

// Shadow marks a rule that denies nobody.
func (p *page) Shadow(rule string) string { return p.shadowMark(rule) }

// ByClient says whether what is counted are clients.
func (p *page) ByClient() bool { return p.ClientKind == fieldNouns[ByIP][1] }

// ChartScript is uplot with its licence, which wants to stand in every copy. It and
// the other parts are embedded; nothing in them comes from a log.
func (p *page) ChartScript() template.JS {
	return template.JS("/*\n" + pageText("uplot/LICENSE") + "*/\n" + pageText("uplot/uPlot.iife.min.js"))
}

// ChartStyle is the style of uplot.
func (p *page) ChartStyle() template.CSS { return template.CSS(pageText("uplot/uPlot.min.css")) }

// Script draws the charts.
func (p *page) Script() template.JS { return template.JS(pageText("page.js")) }

// Style is that of the page.
func (p *page) Style() template.CSS { return template.CSS(pageText("page.css")) }
