package system

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stint/internal/testkit"
)

// ListFiles works for folders as people and orchestrators create them.
func TestList(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{
		"plain/b.yaml", "plain/a", "plain/deep/er/c.txt", "plain/.hidden", "plain/.git/config",
		"volume/..2026_01/x.yaml", "volume/..2026_01/y.yaml", "elsewhere/z.yaml",
	} {
		path := filepath.Join(root, name)
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.Must(t, os.WriteFile(path, nil, 0o644))
	}
	for link, target := range map[string]string{
		"volume/..data": "..2026_01", "volume/x.yaml": "..data/x.yaml", "volume/y.yaml": "..data/y.yaml",
		"current": "plain", "plain/deep/loop": "..", "plain/far": "../elsewhere",
	} {
		testkit.Must(t, os.Symlink(target, filepath.Join(root, link)))
	}
	for _, test := range []struct {
		path   string
		hidden bool
		want   string
	}{
		{"plain", false, "plain/a plain/b.yaml plain/deep/er/c.txt plain/far/z.yaml"},
		{"plain", true, "plain/a plain/b.yaml plain/deep/er/c.txt plain/far/z.yaml plain/.git/config plain/.hidden"},
		{"current/deep", false, "current/deep/er/c.txt current/deep/loop/a current/deep/loop/b.yaml current/deep/loop/far/z.yaml"},
		{"volume", false, "volume/x.yaml volume/y.yaml"},
		{"volume", true, "volume/x.yaml volume/y.yaml"},
		{"plain/.hidden", false, "plain/.hidden"},
	} {
		got, err := ListFiles([]string{filepath.Join(root, test.path)}, test.hidden)
		testkit.Must(t, err)
		for i := range got {
			got[i] = strings.TrimPrefix(got[i], root+"/")
		}
		if want := strings.Fields(test.want); !slices.Equal(got, want) {
			t.Errorf("%s, hidden %v: %q, want %q", test.path, test.hidden, got, want)
		}
	}
	if _, err := ListFiles([]string{filepath.Join(root, "none")}, true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
	testkit.Must(t, os.Symlink("nowhere", filepath.Join(root, "plain/broken")))
	if _, err := ListFiles([]string{filepath.Join(root, "plain")}, true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a broken link: %v", err)
	}
}

// A finder continues after errors, applies Keep, and reports a path as found if an earlier call has
// returned it.
func TestFinder(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a.yaml", "b.txt", "sub/c.yaml", "none/d.txt"} {
		path := filepath.Join(root, name)
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.Must(t, os.WriteFile(path, nil, 0o644))
	}
	testkit.Must(t, os.Symlink("nowhere", filepath.Join(root, "sub/broken")))
	f := FileFinder{Keep: func(path string) bool { return filepath.Ext(path) == ".yaml" }}
	for _, test := range []struct {
		path, want string
		found      bool
		wrong      string
	}{
		{"sub", "sub/c.yaml", true, "sub/broken"},
		{".", "a.yaml", true, "sub/broken"},
		{"a.yaml", "", true, ""},
		{"none", "", false, ""},
		{"none/d.txt", "none/d.txt", true, ""}, // given by the caller
		{"missing", "", false, "missing"},
	} {
		files, found, errs := f.Find(filepath.Join(root, test.path))
		for i := range files {
			files[i] = strings.TrimPrefix(files[i], root+"/")
		}
		wrong := ""
		for _, err := range errs {
			wrong = strings.TrimPrefix(err.Path, root+"/")
		}
		if got := strings.Join(files, " "); got != test.want || found != test.found || wrong != test.wrong || len(errs) > 1 {
			t.Errorf("%s: %q, %v, %v", test.path, got, found, errs)
		}
	}
}
