package main

import (
	"bytes"
	"context"
	"path/filepath"

	"stint"
	"stint/facts/advice"
	"stint/replay"
	"stint/replay/accesslog"
	"stint/rule/rulefile"
)

// replayReport returns the output of `stint replay --limit "20/min by ip"` for the sample log as a code
// block, and what --sweep adds to it.
func replayReport(root string) (report, sweep string, err error) {
	limit, err := replay.ParseLimit("20/min by ip", stint.FixedWindow, 0)
	if err != nil {
		return "", "", err
	}
	input, err := accesslog.File(filepath.Join(root, "examples", "logs", "shop.log"))
	if err != nil {
		return "", "", err
	}
	options := replay.Options{Limit: limit, Reorder: replay.DefaultReorder, Sweep: true}
	result, err := replay.Run(context.Background(), options, []accesslog.Input{input})
	if err != nil {
		return "", "", err
	}
	var all, curve bytes.Buffer
	result.Sweep[0].WriteText(&curve, 100, result.ClientKind)
	result.Sweep = nil
	if err := result.WriteText(&all); err != nil {
		return "", "", err
	}
	return "```\n" + all.String() + "```\n", "```" + curve.String() + "```\n", nil
}

// replayAdvice returns what `stint replay --limit "5/min by ip" --advise` says about the log of a public
// web site, as a code block.
func replayAdvice(root string) (string, error) {
	limit, err := replay.ParseLimit("5/min by ip", stint.FixedWindow, 0)
	if err != nil {
		return "", err
	}
	table, err := rulefile.Parse(rulefile.Source{Data: []byte(limit.RuleText())})
	if err != nil {
		return "", err
	}
	input, err := accesslog.File(filepath.Join(root, "replay", "testdata", "apache_access.log.gz"))
	if err != nil {
		return "", err
	}
	options := replay.Options{Limit: limit, Reorder: replay.DefaultReorder, Advise: true, AdviseBy: table}
	result, err := replay.Run(context.Background(), options, []accesslog.Input{input})
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	advice.Write(&text, result.Advice, 100)
	return "```\n" + text.String() + "```\n", nil
}
