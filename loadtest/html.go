package loadtest

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"

	"stint/internal/text"
)

//go:embed page.html
var pageText string

var pageTemplate = htmlTemplate(pageText)

func htmlTemplate(source string) *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"number": text.Thousands,
		"micro":  Micro,
		"trim":   strings.TrimSpace,
	}).Parse(source))
}

// WriteHTML writes the report as one page, with the curve of times. It needs no scripts and loads nothing.
func (r *Report) WriteHTML(w io.Writer) error {
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, struct {
		*Report
		Chart *chart
		Kinds []string
	}{r, newChart(r.Rows()), r.kinds()}); err != nil {
		return fmt.Errorf("loadtest: page: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// The size of the chart and its margins.
const (
	chartWidth, chartHeight = 920, 380
	chartLeft, chartRight   = 70, 15
	chartTop, chartBottom   = 15, 35
)

// chart is the curve of times: percentiles to the right, each as far from the next as its rest is halved, and times upwards in
// powers of ten.
type chart struct {
	Width, Height, Left, Right, Top, Bottom int

	Columns []mark // percentiles
	Lines   []mark // times
	Curves  []curve
}

// mark is a grid line.
type mark struct {
	At   float64
	Text string
}

// curve is a line of the chart.
type curve struct {
	Name   string
	Points string // as the SVG attribute
}

// newChart returns the chart; nil without times.
func newChart(rows []Row) *chart {
	if len(rows) == 0 {
		return nil
	}
	low, high, most := int64(math.MaxInt64), int64(1), 0.0
	for _, row := range rows {
		for _, p := range row.Times.Curve {
			low, high = min(low, max(1, p.US)), max(high, p.US)
			if p.Percentile < 100 {
				most = max(most, nines(p.Percentile))
			}
		}
	}
	bottom, top := math.Floor(math.Log10(float64(low))), math.Ceil(math.Log10(float64(high)))
	top = max(top, bottom+1)
	most = max(most, 1) * 1.03 // and room for the longest time
	c := &chart{chartWidth, chartHeight, chartLeft, chartWidth - chartRight, chartTop, chartHeight - chartBottom, nil, nil, nil}
	x := func(nines float64) float64 {
		return chartLeft + min(nines, most)/most*float64(c.Right-c.Left)
	}
	y := func(us float64) float64 {
		return float64(c.Bottom) - (math.Log10(max(us, 1))-bottom)/(top-bottom)*float64(c.Bottom-c.Top)
	}
	for _, p := range []string{"0", "50", "90", "99", "99.9", "99.99", "99.999", "99.9999"} {
		var percentile float64
		if _, err := fmt.Sscan(p, &percentile); err == nil && nines(percentile) <= most {
			c.Columns = append(c.Columns, mark{x(nines(percentile)), p + " %"})
		}
	}
	for e := bottom; e <= top; e++ {
		us := math.Pow(10, e)
		c.Lines = append(c.Lines, mark{y(us), (time.Duration(us) * time.Microsecond).String()})
	}
	for _, row := range rows {
		var points strings.Builder
		for _, p := range row.Times.Curve {
			at := most
			if p.Percentile < 100 {
				at = nines(p.Percentile)
			}
			fmt.Fprintf(&points, "%.1f,%.1f ", x(at), y(float64(p.US)))
		}
		c.Curves = append(c.Curves, curve{strings.TrimSpace(row.Name), strings.TrimSpace(points.String())})
	}
	return c
}

// nines returns how many nines a percentile below 100 has: 1 for 90, 2 for 99.
func nines(percentile float64) float64 { return -math.Log10(1 - percentile/100) }
