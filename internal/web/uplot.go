package web

import _ "embed"

// The chart library uPlot for the pages of this module; uplot/README.md says which version.
var (
	//go:embed uplot/uPlot.iife.min.js
	chartScript string

	//go:embed uplot/LICENSE
	chartLicense string

	//go:embed uplot/uPlot.min.css
	chartStyle string
)

// ChartScript returns uPlot, a script that defines uPlot. It begins with the license, which every copy
// must include.
func ChartScript() string { return "/*\n" + chartLicense + "*/\n" + chartScript }

// ChartStyle returns the style sheet of uPlot.
func ChartStyle() string { return chartStyle }
