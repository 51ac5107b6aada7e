package main

import (
	"bytes"
	"context"
	"path/filepath"

	"stint"
	"stint/replay"
	"stint/replay/accesslog"
)

// replayReport returns the output of `stint replay --limit "20/min by ip"` for the sample log, as a
// code block.
func replayReport(root string) (string, error) {
	limit, err := replay.ParseLimit("20/min by ip", stint.FixedWindow, 0)
	if err != nil {
		return "", err
	}
	input, err := accesslog.File(filepath.Join(root, "examples", "logs", "shop.log"))
	if err != nil {
		return "", err
	}
	options := replay.Options{Limit: limit, Reorder: replay.DefaultReorder}
	report, err := replay.Run(context.Background(), options, []accesslog.Input{input})
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	if err := report.WriteText(&text); err != nil {
		return "", err
	}
	return "```\n" + text.String() + "```\n", nil
}
