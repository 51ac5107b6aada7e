package connect

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// commandTimeout is how long a command may take to print the password.
const commandTimeout = 5 * time.Second

// credentials returns a function that reads the password for each new connection, so that it can be
// changed while the service runs. The password is the first line.
func credentials(user string, read func() ([]byte, error)) func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	return func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		text, err := read()
		if err != nil {
			return rueidis.AuthCredentials{}, err
		}
		line, _, _ := strings.Cut(string(text), "\n")
		return rueidis.AuthCredentials{Username: user, Password: strings.TrimRight(line, "\r")}, nil
	}
}

func fromFile(path string) func() ([]byte, error) {
	return func() ([]byte, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, &URLError{Problem: "password file: " + err.Error(), Hint: "check the path behind password_file=, and that this service may read it"}
		}
		return text, nil
	}
}

// fromCommand returns a function that runs a shell command, whose output is the password. The
// command line and its standard error may contain secrets, so no error repeats them.
func fromCommand(command string) func() ([]byte, error) {
	return func() ([]byte, error) {
		ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
		cmd.WaitDelay = time.Second // for child processes that keep its output open
		text, err := cmd.Output()
		if err != nil {
			return nil, &URLError{Problem: "password command: " + err.Error(), Hint: "run the command behind password_command= by hand, as the user of this service"}
		}
		return text, nil
	}
}
