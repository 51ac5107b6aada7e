// Package examples tests the parts of its folders that are no Go programs: the configurations of
// proxies, with the real proxies and only ports and deadlines changed; the compose files of deploy;
// and the log of logs. Programs have their tests in their own folders.
package examples

import (
	"testing"

	"stint/internal/testkit/programs"
)

func TestMain(m *testing.M) { programs.Main(m) }
