package main

import (
	"context"
	"os"
	"path/filepath"

	"stint/app"
	"stint/cmd/stint/cli"
	"stint/cmd/stint/manual"
)

const completionText = `Prints the script with which a shell completes commands, flags and their values: bash, zsh or fish.

  source <(stint completion bash)
  stint completion zsh > ~/.zsh/completions/_stint
  stint completion fish > ~/.config/fish/completions/stint.fish`

func completionCommand() cli.Command {
	return cli.Command{
		Name: "completion", Args: "SHELL", Summary: "print the completion of a shell", Text: completionText, Words: manual.Shells(),
		Run: func(_ context.Context, s cli.Streams, args []string) error {
			if len(args) != 1 || !manual.IsShell(args[0]) {
				return cli.Usage("completion takes bash, zsh or fish", "write for example stint completion bash")
			}
			_, err := s.Out.Write(manual.Completion(args[0], commands()))
			return err
		},
	}
}

const manText = `Writes the manual pages of all commands into a folder, which it creates: stint.1, stint-serve.1
and so on. Their date is SOURCE_DATE_EPOCH, else today.

  stint man /usr/local/share/man/man1`

func manCommand() cli.Command {
	return cli.Command{
		Name: "man", Args: "FOLDER", Summary: "write the manual pages", Text: manText,
		Run: func(_ context.Context, _ cli.Streams, args []string) error {
			if len(args) != 1 {
				return cli.Usage("man takes one folder", "write for example stint man /usr/local/share/man/man1")
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return cli.Refuse(err.Error(), "give a folder where this user may write")
			}
			pages := manual.Pages(commands(), manual.About{Version: app.Version(), Statuses: exitStatuses, Date: manual.Date(os.Getenv("SOURCE_DATE_EPOCH"))})
			for _, page := range pages {
				if err := os.WriteFile(filepath.Join(args[0], page.Name), page.Text, 0o644); err != nil {
					return cli.Refuse(err.Error(), "give a folder where this user may write")
				}
			}
			return nil
		},
	}
}
