package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"stint/internal/testkit"
)

// TestContainer copies the image out of both of its files with skopeo, and runs what each has in a container with
// runc: with the command of the image, as its user, on a root that is read-only.
func TestContainer(t *testing.T) {
	r := built(t, "skopeo", "umoci", "runc")
	newMachine(t, false) // only root can
	docker := "docker-archive:" + only(t, r.first, "_amd64.docker.tar")
	if tags := command(t, "skopeo", "list-tags", docker); !strings.Contains(tags, `"stint:`+first+`"`) {
		t.Errorf("docker load would name it %s", tags)
	}
	for _, from := range []string{docker, "oci-archive:" + only(t, r.first, ".oci.tar") + ":" + first} {
		dir := t.TempDir()
		image, bundle := filepath.Join(dir, "image")+":"+first, filepath.Join(dir, "bundle")
		command(t, "skopeo", "--insecure-policy", "--override-os", "linux", "--override-arch", "amd64", "copy", from, "oci:"+image)
		command(t, "umoci", "unpack", "--image", image, bundle)
		runContainer(t, dir, bundle)
	}
}

// runContainer runs a container until its service is ready, and stops it.
func runContainer(t *testing.T, dir, bundle string) {
	t.Helper()
	name := filepath.Join(bundle, "config.json")
	text, err := os.ReadFile(name)
	testkit.Must(t, err)
	var config map[string]any
	testkit.Must(t, json.Unmarshal(text, &config))
	config["process"].(map[string]any)["terminal"] = false
	config["root"].(map[string]any)["readonly"] = true
	text, err = json.Marshal(config)
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(name, text, 0o600))

	id := fmt.Sprintf("stint-test-%d", os.Getpid())
	runc := func(args ...string) *exec.Cmd {
		return exec.Command("runc", append([]string{"--root", filepath.Join(dir, "state")}, args...)...)
	}
	container := runc("run", "--bundle", bundle, id)
	var log bytes.Buffer
	container.Stdout, container.Stderr = &log, &log
	testkit.Must(t, container.Start())
	defer runc("delete", "--force", id).Run() //nolint:errcheck // it has ended, unless the test failed
	testkit.Until(t, "the service in the container is ready", func() bool {
		return runc("exec", id, "/usr/bin/stint", "health").Run() == nil
	})
	text, err = runc("state", id).Output()
	testkit.Must(t, err)
	var state struct{ Pid int }
	testkit.Must(t, json.Unmarshal(text, &state))
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", state.Pid))
	testkit.Must(t, err)
	if !strings.Contains(string(status), "Uid:\t65532\t65532\t65532\t65532\n") {
		t.Errorf("the service runs with %s", status)
	}
	testkit.Must(t, container.Process.Signal(syscall.SIGTERM))
	if err := container.Wait(); err != nil || !strings.Contains(log.String(), "msg=stopped") {
		t.Errorf("it ended with %v: %s", err, log.String())
	}
}
