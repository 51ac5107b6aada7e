// Package uplot embeds uPlot, a chart library for browsers, for the pages of this module. README.md
// says which version it is.
package uplot

import _ "embed"

// Script is the library, which defines uPlot. It begins with the license, which every copy must
// include.
var Script = "/*\n" + license + "*/\n" + script

// Style is its style sheet.
//
//go:embed uPlot.min.css
var Style string

//go:embed LICENSE
var license string

//go:embed uPlot.iife.min.js
var script string
