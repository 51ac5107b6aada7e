package config

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"stint/internal/testkit"
)

// The watched folders, for the ways in which rules are installed on a machine.
func TestWatchPlaces(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"plain", "volume/..2026_01", "releases/7/rules", "empty"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	for _, file := range []string{"plain/a.yaml", "volume/..2026_01/a.yaml", "releases/7/rules/a.yaml"} {
		testkit.Must(t, os.WriteFile(filepath.Join(root, file), nil, 0o644))
	}
	for link, target := range map[string]string{
		"volume/..data":  "..2026_01",
		"volume/a.yaml":  "..data/a.yaml",
		"current":        "releases/7",
		"far.yaml":       filepath.Join(root, "current/rules/../rules/a.yaml"),
		"plain/far.yaml": "../far.yaml",
		"loop":           "loop",
	} {
		testkit.Must(t, os.Symlink(target, filepath.Join(root, link)))
	}
	for _, test := range []struct {
		name string
		path string
		want map[string][]string // by folder, relative to root; above root only root matters
	}{
		{"a file", "plain/a.yaml", map[string][]string{".": {"plain"}, "plain": {"a.yaml"}}},
		{"a missing file", "plain/b.yaml", map[string][]string{".": {"plain"}, "plain": {"b.yaml"}}},
		{"a missing folder", "empty/x/b.yaml", map[string][]string{".": {"empty"}, "empty": {"x"}}},
		{"a folder", "empty", map[string][]string{".": {"empty"}, "empty": {"*"}}},
		{"a volume's file", "volume/a.yaml", map[string][]string{".": {"volume"}, "volume": {"a.yaml", "..data", "..2026_01"}, "volume/..2026_01": {"a.yaml"}}},
		{
			"a volume", "volume",
			map[string][]string{".": {"volume"}, "volume": {"*", "a.yaml", "..data", "..2026_01"}, "volume/..2026_01": {"a.yaml"}},
		},
		{"below a link", "current/rules/a.yaml", map[string][]string{"..": nil, ".": {"current"}, "releases/7": {"rules"}, "releases/7/rules": {"a.yaml"}}},
		{"a link to far away", "far.yaml", map[string][]string{"..": nil, ".": {"far.yaml", "current"}, "releases/7": {"rules"}, "releases/7/rules": {"a.yaml"}}},
		{"a link to itself", "loop", map[string][]string{"..": nil, ".": {"loop"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := watchPlaces([]string{filepath.Join(root, test.path)})
			testkit.Must(t, err)
			if len(got) != len(test.want) {
				t.Errorf("watching %v, want %v", got, test.want)
			}
			for dir, names := range test.want {
				if dir == ".." {
					names = []string{filepath.Base(root)}
				}
				names, found := slices.Sorted(slices.Values(names)), slices.Sorted(slices.Values(got[filepath.Join(root, dir)]))
				if !slices.Equal(names, found) {
					t.Errorf("in %s watching %v, want %v", dir, found, names)
				}
			}
		})
	}
}

// In a tree every name matters, in all subfolders and in folders that links lead to.
func TestWatchTrees(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	testkit.Must(t, err)
	for _, dir := range []string{"releases/1/config/deep", "elsewhere"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	testkit.Must(t, os.WriteFile(filepath.Join(root, "releases/1/config/rules"), nil, 0o644))
	for link, target := range map[string]string{"current": "releases/1", "releases/1/config/far": "../../../elsewhere", "elsewhere/loop": "."} {
		testkit.Must(t, os.Symlink(target, filepath.Join(root, link)))
	}
	p, err := watchTrees([]string{filepath.Join(root, "current/config")})
	testkit.Must(t, err)
	for name, want := range map[string]bool{
		"current": true, "releases/1/config": true, "releases/1/config/rules": true, "releases/1/config/new": true,
		"releases/1/config/deep/x": true, "elsewhere/any": true, "elsewhere/loop": true, "releases/2": false, "releases/1/other": false,
	} {
		if got := p.matter(filepath.Join(root, name)); got != want {
			t.Errorf("%s matters: %v, want %v", name, got, want)
		}
	}
}

func TestPlacesMatter(t *testing.T) {
	p := places{"/r": {"*"}, "/f": {"a.yaml"}}
	for name, want := range map[string]bool{
		"/r/a.yaml": true, "/r/b.yml": true, "/r/..data": true, "/r/log.txt": false, "/r/..data_tmp": false,
		"/f/a.yaml": true, "/f/b.yaml": false, "/a.yaml": false,
	} {
		if got := p.matter(name); got != want {
			t.Errorf("%s matters: %v, want %v", name, got, want)
		}
	}
}

// If no descriptor was left to find all folders, the previous ones stay watched, and the watcher
// tries again.
func TestLookAgain(t *testing.T) {
	notify, err := fsnotify.NewWatcher()
	testkit.Must(t, err)
	defer notify.Close()
	before, after := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		looks := 0
		w := &Watcher{notify: notify, watching: map[string]bool{}, places: places{before: {"*"}}, log: slog.New(slog.DiscardHandler)}
		w.find = func([]string) (places, error) {
			if looks++; looks == 1 {
				return places{}, syscall.EMFILE
			}
			return places{after: {"*"}}, nil
		}
		w.look()
		if !w.places.matter(filepath.Join(before, "a.yaml")) {
			t.Errorf("watching %v after a look that failed", w.places)
		}
		began, acted := time.Now(), time.Duration(0)
		go w.loop(ctx, nil, nil, func() { w.look(); acted = time.Since(began) })
		time.Sleep(time.Minute) // in the bubble's time
		cancel()
		synctest.Wait()
		if looks != 2 || acted != lookAgain || len(w.places[after]) != 1 {
			t.Errorf("%d looks, the last after %v, watching %v", looks, acted, w.places)
		}
	})
}

// Events in quick succession are one change; an endless stream of events also leads to a call.
func TestDebounce(t *testing.T) {
	for _, test := range []struct {
		name  string
		every time.Duration // between events
		count int
		want  []time.Duration // times of the calls since the first event
	}{
		{"one event", 0, 1, []time.Duration{settle}},
		{"a burst", settle / 2, 4, []time.Duration{3*settle/2 + settle}},
		{"two changes", 2 * settle, 2, []time.Duration{settle, 3 * settle}},
		{"no end", settle / 2, 50, []time.Duration{settleMost, 49*settle/2 + settle}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				events, began := make(chan fsnotify.Event), time.Now()
				var acted []time.Duration
				w := &Watcher{places: places{"/r": {"*"}}, log: slog.New(slog.NewTextHandler(io.Discard, nil))}
				go w.loop(ctx, events, nil, func() { acted = append(acted, time.Since(began)) })
				for i := range test.count {
					if i > 0 {
						time.Sleep(test.every)
					}
					events <- fsnotify.Event{Name: "/r/a.yaml"}
					events <- fsnotify.Event{Name: "/r/notes.txt"}
				}
				time.Sleep(time.Minute)
				events <- fsnotify.Event{Name: "/r/notes.txt"} // a name that does not matter
				time.Sleep(time.Minute)
				cancel()
				synctest.Wait()
				if !slices.Equal(acted, test.want) {
					t.Errorf("acted after %v, want %v", acted, test.want)
				}
			})
		})
	}
}

// A folder that is renamed away, with another one put in its place, is seen, and so are changes in the new one.
func TestFolderReplaced(t *testing.T) {
	for _, test := range []struct {
		name, path string // of what is watched, relative to the folder that contains the replaced one
		file       string // of what changes
		start      func([]string, *slog.Logger) (*Watcher, error)
	}{
		{"a file", "rules/a.yaml", "rules/a.yaml", NewWatcher},
		{"a folder", "rules", "rules/a.yaml", NewWatcher},
		{"a volume's file", "rules/link.yaml", "rules/..data/a.yaml", NewWatcher},
		{"a tree", "rules", "rules/deep/a", NewTreeWatcher},
		{"a missing file", "rules/late.yaml", "rules/late.yaml", NewWatcher},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			fill := func(folder, text string) {
				t.Helper()
				for _, dir := range []string{"..1", "deep"} {
					testkit.Must(t, os.MkdirAll(filepath.Join(root, folder, dir), 0o755))
				}
				for _, file := range []string{"a.yaml", "..1/a.yaml", "deep/a"} {
					testkit.Must(t, os.WriteFile(filepath.Join(root, folder, file), []byte(text), 0o644))
				}
				testkit.Must(t, os.Symlink("..1", filepath.Join(root, folder, "..data")))
				testkit.Must(t, os.Symlink("..data/a.yaml", filepath.Join(root, folder, "link.yaml")))
			}
			fill("rules", "1")
			fill("next", "2")
			w, err := test.start([]string{filepath.Join(root, test.path)}, slog.New(slog.DiscardHandler))
			testkit.Must(t, err)
			var calls atomic.Int64
			var seen atomic.Value
			seen.Store("")
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() {
				w.Run(ctx, func() []string {
					text, _ := os.ReadFile(filepath.Join(root, test.file)) // "" while it is missing
					seen.Store(string(text))
					calls.Add(1)
					return nil
				})
			})
			defer running.Wait()
			defer cancel()
			see := func(what, text string) {
				t.Helper()
				testkit.Until(t, what+" is seen", func() bool { return seen.Load() == text })
			}
			write := func(text string) {
				t.Helper()
				testkit.Must(t, os.WriteFile(filepath.Join(root, test.file), []byte(text), 0o644))
			}
			late := strings.Contains(test.file, "late")
			if !late {
				see("the file", "1")
			}
			testkit.Until(t, "the first call", func() bool { return calls.Load() > 0 })
			before := calls.Load()
			testkit.Must(t, os.Rename(filepath.Join(root, "rules"), filepath.Join(root, "old")))
			testkit.Must(t, os.Rename(filepath.Join(root, "next"), filepath.Join(root, "rules")))
			if !late {
				see("the new folder", "2")
			}
			testkit.Until(t, "the renaming is seen", func() bool { return calls.Load() > before })
			write("3")
			see("a change in the new folder", "3")
			testkit.Must(t, os.RemoveAll(filepath.Join(root, "rules")))
			if !late {
				see("that it is gone", "")
			}
			fill("rules", "4")
			write("5")
			see("a change in a folder that was made again", "5")
		})
	}
}
