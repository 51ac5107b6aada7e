package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user of images: not root, and none of a host.
const imageUser = "65532"

// images writes the images of a program for all its Linux systems: one OCI layout with an index, as
// a tar, and for each architecture an archive that every docker can load.
func (r *release) images(p *program) error {
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	found := false
	for _, s := range r.systems {
		if s.os != "linux" {
			continue
		}
		found = true
		image, err := r.image(p, s)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: s.os, Architecture: s.arch}, MediaType: types.OCIManifestSchema1},
		})
		tag, err := name.NewTag(p.name+":"+r.version, name.WithDefaultRegistry(""))
		if err != nil {
			return err
		}
		if err := tarball.WriteToFile(r.file(fmt.Sprintf("%s_%s_%s.docker.tar", p.name, r.version, s.arch)), tag, image); err != nil {
			return err
		}
	}
	if !found {
		return nil
	}
	return r.layout(p, index)
}

// layout writes an index as a tar of an OCI layout.
func (r *release) layout(p *program, index v1.ImageIndex) error {
	dir := filepath.Join(r.work, p.name+".oci")
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	err = l.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.version, // skopeo's tag
		// The name after podman load, docker load and ctr import. Without it podman calls the image v0.1.0:latest.
		"io.containerd.image.name": "docker.io/library/" + p.name + ":" + r.version,
	}))
	if err != nil {
		return err
	}
	var entries []entry
	err = filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		entries = append(entries, entry{filepath.ToSlash(rel), 0o644, data})
		return err
	})
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := writeTar(&b, entries, r.date); err != nil {
		return err
	}
	return os.WriteFile(r.file(p.name+"_"+r.version+".oci.tar"), b.Bytes(), 0o644)
}

// image returns an image of one layer. It needs no file outside: the program has the time zones in
// it, and the roots of authorities are in the layer. It writes nothing, so its root may be read-only.
func (r *release) image(p *program, s system) (v1.Image, error) {
	binary, err := os.ReadFile(r.binary(p, s))
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	entries := []entry{
		{"usr/bin/" + p.name, 0o755, binary},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\nstint:x:" + imageUser + ":" + imageUser + ":stint:/:/sbin/nologin\n")},
		{"etc/group", 0o644, []byte("root:x:0:\nstint:x:" + imageUser + ":\n")},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, roots()},
		{path.Join("usr/share/doc", p.name, "LICENSE"), 0o644, license},
		{path.Join("usr/share/doc", p.name, "LICENSES-OF-OTHERS"), 0o644, p.manual.licenses},
		{"tmp/", 0o1777, nil},
	}
	configs, err := r.configs(p)
	if err != nil {
		return nil, err
	}
	if p.name != "stint" { // stint serve runs without a file
		entries = append(entries, entry{"data/", 0o1777, nil}) // else a volume there belongs to root
		for _, c := range configs {
			entries = append(entries, entry{path.Join("etc", p.name, c.name), 0o644, c.data})
		}
	}
	var b bytes.Buffer
	if err := writeTar(&b, entries, r.date); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	size, err := layer.Size()
	if err != nil {
		return nil, err
	}
	if size > p.limit {
		return nil, fmt.Errorf("the image has %d bytes, at most %d", size, p.limit)
	}
	return r.configured(p, s, layer)
}

// configured returns the image of a layer, with its user, its command and its labels.
func (r *release) configured(p *program, s system, layer v1.Layer) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: r.date}, CreatedBy: "make release", Comment: p.name + " " + r.version},
	})
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = s.os, s.arch, v1.Time{Time: r.date}
	file.Config = v1.Config{
		User: imageUser + ":" + imageUser, Entrypoint: []string{"/usr/bin/" + p.name}, Cmd: p.command, WorkingDir: "/",
		Env: []string{"PATH=/usr/bin"}, ExposedPorts: map[string]struct{}{},
		Labels: map[string]string{
			"org.opencontainers.image.title":       p.name,
			"org.opencontainers.image.description": p.summary,
			"org.opencontainers.image.version":     r.version,
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.created":     r.date.Format("2006-01-02T15:04:05Z07:00"),
		},
	}
	if p.name == "stint-gateway" { // Caddy keeps certificates there
		file.Config.Env = append(file.Config.Env, "XDG_DATA_HOME=/data", "XDG_CONFIG_HOME=/data")
		file.Config.Volumes = map[string]struct{}{"/data": {}}
	}
	for _, port := range p.ports {
		file.Config.ExposedPorts[port] = struct{}{}
	}
	return mutate.ConfigFile(image, file)
}

// roots returns the certificates of authorities that Mozilla trusts without a condition: PEM cannot
// state one.
func roots() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return b.Bytes()
}
