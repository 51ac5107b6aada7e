package main

import (
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"stint/internal/testkit/programs"
)

// built builds the site of this repository.
func built(t *testing.T) (out string, s *site) {
	t.Helper()
	out = t.TempDir()
	s = newSite("../..")
	if err := s.build(out); err != nil {
		t.Fatal(err)
	}
	return out, s
}

// TestLinks follows every link and every source of the pages as they were written.
func TestLinks(t *testing.T) {
	out, s := built(t)
	attribute := regexp.MustCompile(`(?:(href|src)|id)="([^"]*)"`)
	ids, links := map[string]bool{}, map[string]string{} // by page#id; by target: a page that has it
	for _, p := range s.pages {
		data, err := os.ReadFile(filepath.Join(out, p.to))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range attribute.FindAllStringSubmatch(string(data), -1) {
			value := html.UnescapeString(m[2])
			if m[1] == "" {
				ids[p.to+"#"+value] = true
				continue
			}
			u, err := url.Parse(value)
			switch {
			case err != nil:
				t.Errorf("%s: %v", p.to, err)
			case u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "mailto":
				if m[1] == "src" || strings.Contains(string(data), `<link rel="stylesheet" href="`+m[2]) {
					t.Errorf("%s: loads %s", p.to, value)
				}
			case u.Scheme == "":
				to := filepath.Join(filepath.Dir(p.to), u.Path)
				if u.Path == "" {
					to = p.to
				}
				if u.Fragment != "" {
					to += "#" + u.Fragment
				}
				links[to] = p.to
			}
		}
	}
	if len(links) < 300 {
		t.Fatalf("only %d links", len(links))
	}
	for to, from := range links {
		file, _, anchored := strings.Cut(to, "#")
		if _, err := os.Stat(filepath.Join(out, file)); err != nil || anchored && !ids[to] {
			t.Errorf("%s: the link to %s leads nowhere", from, to)
		}
	}
}

// TestFaults builds documents with mistakes.
func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		"# A\n\n[b](b.md)\n":            "the link b.md leads to no file of the repository",
		"# A\n\n[b](../b.md)\n":         "the link ../b.md leads to no file of the repository",
		"# A\n\n[b](#b)\n":              "README.md has no heading #b",
		"# A\n\n[b](SECURITY.md#b)\n":   "SECURITY.md has no heading #b",
		"# A\n\n![b](http://b/b.svg)\n": "no such file",
		"# A\n\nb<br>c\n":               `write Markdown instead of "<br>"`,
	} {
		root := t.TempDir()
		for _, name := range []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"} {
			content := "# Title\n"
			if name == "README.md" {
				content = text
			}
			if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out := filepath.Join(t.TempDir(), "site")
		if err := newSite(root).build(out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%q: wrote a site", text)
		}
	}
}

// TestSlug compares anchors with those of GitHub.
func TestSlug(t *testing.T) {
	for heading, want := range map[string]string{
		"Exit statuses": "exit-statuses", "A, b & c": "a-b--c", "--store and so_on": "--store-and-so_on", "Größe 2": "größe-2",
	} {
		if got := slug(heading); got != want {
			t.Errorf("%s: %s, want %s", heading, got, want)
		}
	}
}

// TestSearch searches in Chromium, on a page of a folder, as a reader does.
func TestSearch(t *testing.T) {
	out, _ := built(t)
	server := httptest.NewServer(http.FileServer(http.Dir(out)))
	defer server.Close()
	tab := programs.StartBrowser(t).Open(server.URL + "/docs/rules.html")
	tab.Until(`document.readyState === "complete" && location.pathname === "/docs/rules.html"`)
	tab.Run(`document.getElementById("search").focus()`, nil)
	for _, key := range "exit statuses" {
		tab.Key(string(key))
	}
	tab.Until(`document.querySelectorAll("#results a").length > 0`)
	var first string
	tab.Run(`document.querySelector("#results a").href`, &first)
	if want := server.URL + "/docs/service.html#exit-statuses"; first != want {
		t.Errorf("the first result is %s, want %s", first, want)
	}
	tab.Run(`document.querySelector("#results a").click()`, nil)
	tab.Until(`location.hash === "#exit-statuses" && document.querySelector(location.hash).textContent === "Exit statuses"`)
	var foreign []string
	tab.Run(`performance.getEntriesByType("resource").map((e) => e.name).filter((name) => !name.startsWith(location.origin + "/") && !name.startsWith("data:"))`, &foreign)
	if len(foreign) > 0 {
		t.Errorf("the page loads %v", foreign)
	}
	for _, width := range []int{320, 1200} {
		tab.Size(width, 800, width == 320)
		tab.Until(`innerWidth === ` + map[int]string{320: "320", 1200: "1200"}[width])
		var wide int
		if tab.Run(`document.documentElement.scrollWidth`, &wide); wide > width {
			t.Errorf("at %d pixels the page is %d wide", width, wide)
		}
	}
	if log := tab.Console(); log != "" {
		t.Errorf("the console has messages:\n%s", log)
	}

	// The same files work without a server.
	tab.Go("file://" + out + "/index.html")
	tab.Until(`location.protocol === "file:" && document.readyState === "complete"`)
	tab.Run(`document.getElementById("search").focus()`, nil)
	for _, key := range "exit nosuchword" {
		tab.Key(string(key))
	}
	tab.Until(`document.getElementById("results").textContent.startsWith("Nothing")`)
}
