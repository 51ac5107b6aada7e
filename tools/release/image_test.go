package main

import (
	"archive/tar"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"stint/internal/testkit"
)

// unpack writes the files of a tar below a folder.
func unpack(t *testing.T, from io.Reader, dir string) {
	t.Helper()
	in := tar.NewReader(from)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			if err := errors.Join(os.MkdirAll(to, 0o755), os.Chmod(to, h.FileInfo().Mode())); err != nil {
				t.Fatal(err)
			}
			continue
		}
		f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, h.FileInfo().Mode().Perm())
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(f, in)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// ociIndex unpacks and reads an OCI layout.
func ociIndex(t *testing.T, name string) v1.ImageIndex {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := t.TempDir()
	unpack(t, f, dir)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Fatal(err)
	}
	top, err := index.IndexManifest()
	if err != nil || len(top.Manifests) != 1 || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != first {
		t.Fatalf("the index of the layout is %+v, %v", top, err)
	}
	if got := top.Manifests[0].Annotations["io.containerd.image.name"]; got != "docker.io/library/stint:"+first {
		t.Errorf("podman load would name the image %q", got)
	}
	inner, err := index.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return inner
}

// TestImage unpacks the image and runs its program as its user, who may write nowhere but in /tmp, and with a
// root that is read-only.
func TestImage(t *testing.T) {
	r := built(t)
	index := ociIndex(t, only(t, r.first, ".oci.tar"))
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(manifest.Manifests, func(d v1.Descriptor) bool { return d.Platform.Architecture == "amd64" && d.Platform.OS == "linux" })
	if i < 0 {
		t.Fatalf("no image for linux/amd64 in %+v", manifest)
	}
	image, err := index.Image(manifest.Manifests[i].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c := config.Config; c.User != "65532:65532" || c.Entrypoint[0] != "/usr/bin/stint" || c.Labels["org.opencontainers.image.version"] != first {
		t.Errorf("the configuration is %+v", c)
	}
	if layers, err := image.Layers(); err != nil || len(layers) != 1 {
		t.Errorf("%d layers, %v", len(layers), err)
	} else if size, err := layers[0].Size(); err != nil || size > 30<<20 {
		t.Errorf("the layer has %d bytes, %v", size, err)
	}
	docker, err := tarball.ImageFromPath(only(t, r.first, "_amd64.docker.tar"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(docker); err != nil {
		t.Error(err)
	}
	if a, b := must(image.ConfigName()), must(docker.ConfigName()); a != b {
		t.Errorf("docker's archive has the image %s, the OCI layout %s", b, a)
	}

	m := newMachine(t, false)
	files := mutate.Extract(image)
	defer files.Close()
	root := filepath.Join(m.root, "image")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	unpack(t, files, root)
	m.root = root
	m.version(first)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(m.read("etc/ssl/certs/ca-certificates.crt"))) || len(pool.Subjects()) < 100 { //nolint:staticcheck // of this pool it is exact
		t.Errorf("%d authorities", len(pool.Subjects())) //nolint:staticcheck // as above
	}
	// A calendar limit needs the time zones.
	m.write("tmp/rules.yaml", "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {requests: 10, unit: month, time_zone: Australia/Lord_Howe}\n")
	if err := os.Chmod(m.path("tmp/rules.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	m.serve(config.Config.User, "--rules", "/tmp/rules.yaml")
	t.Run("read-only", func(t *testing.T) { // apart: only this may not be granted
		if out, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); err != nil {
			testkit.SkipNotGranted(t, "mounts of its own (CAP_SYS_ADMIN): "+err.Error()+": "+string(out))
		}
		m.t, m.readOnly = t, true
		m.serve(config.Config.User, "--rules", "/tmp/rules.yaml")
	})
}

// TestGatewayData: the user of the gateway's image may write where it keeps certificates. A new volume takes its
// rights from the folder in the image.
func TestGatewayData(t *testing.T) {
	r := &release{options: options{root: "../..", version: first}, work: t.TempDir(), date: oldest}
	p, s := knownPrograms("stint", first)[1], system{"linux", "amd64"}
	p.manual = &manual{}
	testkit.Must(t, os.MkdirAll(filepath.Dir(r.binary(p, s)), 0o755))
	testkit.Must(t, os.WriteFile(r.binary(p, s), []byte("no program"), 0o600))
	image, err := r.image(p, s)
	if err != nil {
		t.Fatal(err)
	}
	files := mutate.Extract(image)
	defer files.Close()
	root := t.TempDir()
	unpack(t, files, root)
	if _, is := must(image.ConfigFile()).Config.Volumes["/data"]; !is {
		t.Error("no volume at /data")
	}
	if info, err := os.Stat(filepath.Join(root, "data")); err != nil || info.Mode() != os.ModeDir|os.ModeSticky|0o777 {
		t.Errorf("/data: %v, %v", info, err)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
