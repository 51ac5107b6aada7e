package connect

import (
	"errors"
	"testing"
)

// The first word names errors of commands within scripts, for all releases.
func TestErrorsWithinScripts(t *testing.T) {
	for text, problem := range map[string]string{
		"READONLY You can't write against a read only replica.":                                                                                  "READONLY You can't write against a read only replica.",
		"ERR Error running script (call to f_3d27): @user_script:26: @user_script: 26: -OOM command not allowed when used memory > 'maxmemory'.": "OOM command not allowed when used memory > 'maxmemory'.",
		"@user_script: 155: -NOREPLICAS Not enough good replicas to write.":                                                                      "NOREPLICAS Not enough good replicas to write.",
		"ERR The user executing the script can't run this command or subcommand script: 3d27, on @user_script:26.":                               "NOPERM The user executing the script can't run this command or subcommand script: 3d27, on @user_script:26.",
		"ACL failure in script: User default has no permissions to run the 'set' command script: 3d27, on @user_script:26.":                      "NOPERM ACL failure in script: User default has no permissions to run the 'set' command script: 3d27, on @user_script:26.",
		"NOPERM this user has no permissions to run the 'evalsha' command":                                                                       "NOPERM this user has no permissions to run the 'evalsha' command",
		"DB index is out of range":                                  "DB index is out of range",
		"STINT-STATE is not a state of Stint: @user_script: 26: -x": "STINT-STATE is not a state of Stint: @user_script: 26: -x",
	} {
		var e *Error
		if err := ExplainText("decide", text); !errors.As(err, &e) || e.Problem != problem || e.Hint == "" {
			t.Errorf("%s:\n got %+v\nwant %s", text, e, problem)
		}
	}
}
