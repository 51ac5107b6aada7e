// Package examples tests what lies in its folders and is no Go: the configurations of proxies
// with the real proxies, as they stand but for their ports and deadlines; the compose files of
// deploy; and the log of logs. Programs have their tests beside them.
package examples

import (
	"testing"

	"stint/internal/testkit/programs"
)

func TestMain(m *testing.M) { programs.Main(m) }
