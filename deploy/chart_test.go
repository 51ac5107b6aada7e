package deploy

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"

	"stint/internal/testkit"
)

// full are values with everything on.
const full = `
store: redis://redis:6379
storeSecret: store
admin: {secret: admin}
imagePullSecrets: [{name: pull}]
settings: {unmatched: deny}
autoscaling: {enabled: true}
networkPolicy: {enabled: true, from: [{podSelector: {matchLabels: {app: envoy}}}], metricsFrom: [{namespaceSelector: {}}]}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
service: {annotations: {a: b}}
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: a, operator: Exists}]
podAnnotations: {a: b}
podLabels: {a: b}
gateway: {secrets: [oidc]}
`

// shared are the values of the plain manifests: several pods need a store that they share.
const shared = "store: redis://redis:6379\n"

// shapes are the shapes of the chart.
var shapes = []string{"service", "sidecar", "gateway"}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load("helm/stint")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render returns the manifests of the chart with values, each with its name.
func render(t *testing.T, c *chart.Chart, values string) (map[string]string, error) {
	t.Helper()
	return renderAs(t, c, "stint", values)
}

// renderAs is render for a release of another name.
func renderAs(t *testing.T, c *chart.Chart, release, values string) (map[string]string, error) {
	t.Helper()
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = chartutil.KubeVersion{Version: "v1.33.0", Major: "1", Minor: "33"}
	all, err := chartutil.ToRenderValues(c, given, chartutil.ReleaseOptions{Name: release, Namespace: "default", Revision: 1, IsInstall: true}, capabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

// manifests joins rendered templates in the order of their names, without notes and helpers.
func manifests(rendered map[string]string) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if strings.HasSuffix(name, ".yaml") && strings.TrimSpace(rendered[name]) != "" {
			fmt.Fprintf(&text, "---\n%s\n", strings.Trim(strings.TrimPrefix(strings.TrimSpace(rendered[name]), "---"), "\n"))
		}
	}
	return text.String()
}

// The chart has no fault that Helm's linter finds.
func TestLint(t *testing.T) {
	for _, shape := range shapes {
		for _, values := range []string{"", full} {
			given, err := chartutil.ReadValues([]byte("shape: " + shape + "\n" + values))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range lint.AllWithKubeVersion("helm/stint", given, "default", nil).Messages {
				if !strings.Contains(m.Error(), "icon is recommended") {
					t.Errorf("%s: %v", shape, m)
				}
			}
		}
	}
}

// The plain manifests are those of the chart, and Kubernetes' own schemas accept them, and those with
// everything on.
func TestManifests(t *testing.T) {
	c, dir := load(t), t.TempDir()
	var files []string
	for _, shape := range shapes {
		rendered, err := render(t, c, "shape: "+shape+"\n"+shared)
		if err != nil {
			t.Fatal(err)
		}
		plain := "# The " + shape + " shape of the Helm chart, rendered with a shared store: change addresses, images and rules,\n# and kubectl apply -f it. Made by `go test -update` in deploy.\n" +
			strings.ReplaceAll(manifests(rendered), "app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: kubectl")
		name := filepath.Join("kubernetes", shape+".yaml")
		testkit.CheckGolden(t, name, plain)
		rendered, err = render(t, c, "shape: "+shape+"\n"+full)
		if err != nil {
			t.Fatal(err)
		}
		everything := filepath.Join(dir, shape+".yaml")
		if err := os.WriteFile(everything, []byte(manifests(rendered)), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, name, everything)
	}
	validate(t, files)
}

// validate checks manifests with the schemas of the newest and the oldest supported Kubernetes.
func validate(t *testing.T, files []string) {
	t.Helper()
	program, err := filepath.Abs("../.cache/venv/bin/kubernetes-validate")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		testkit.SkipOrFail(t, fmt.Sprintf("%v: scripts/install-test-deps.sh installs it", err))
	}
	for _, version := range []string{"1.30", "1.33"} {
		for _, strict := range files {
			out, err := exec.CommandContext(t.Context(), program, "--strict", "--kubernetes-version", version, strict).CombinedOutput() //nolint:gosec // the program of this test
			if err != nil {
				t.Errorf("Kubernetes %s: %s: %v\n%s", version, strict, err, out)
			}
		}
	}
}

// Mistyped and impossible values are refused, before anything is installed.
func TestSchema(t *testing.T) {
	c := load(t)
	for _, values := range []string{
		"shape: daemon", "replica: 3", "replicas: two", "image: {digest: sha256:abc}", "store: postgres://a",
		"drain: {delay: 10s}", "service: {type: External}", "sidecar: {port: 0}", "memory: 256MB",
		"rules: {a/b.yaml: ''}", "settings: {store: memory}", "settings: {http: ''}", "settings: {drain-delay: 60s}",
		// What the chart sets itself, or what nothing would read.
		"settings: {memory: 1GiB}", "settings: {rules: [/x]}", "rules: {..: ''}", "rules: {a.txt: ''}", "rules: {" + strings.Repeat("a", 249) + ".yaml: ''}",
		// Sections that are taken away.
		"settings: null", "rules: null", "admin: null", "drain: null", "drain: {delay: null}", "image: null", "autoscaling: null", "autoscaling: {max: null}",
		"disruptionBudget: null", "networkPolicy: null", "serviceMonitor: null", "service: null", "sidecar: null", "gateway: null", "gateway: {caddyfile: null}",
		// Labels that the chart has too, so that a pod would not belong to its Deployment.
		"podLabels: {app.kubernetes.io/name: x}", "podLabels: {app.kubernetes.io/instance: x}", "serviceMonitor: {labels: {app.kubernetes.io/component: x}}",
		"podAnnotations: {checksum/config: x}", "podLabels: {'a b': x}", "podLabels: {a: 'b c'}", "podLabels: {a: " + strings.Repeat("b", 64) + "}",
		// What Kubernetes refuses, some of it only when the pod starts.
		"image: {repository: 'a: b'}", "image: {repository: a, tag: 'x y'}", "admin: {secret: A_b}", "storeSecret: '../x'", "gateway: {secrets: [a, a]}",
		"gateway: {secrets: ['../x']}", "imagePullSecrets: [{name: a, key: b}]", "disruptionBudget: {maxUnavailable: half}", "disruptionBudget: {maxUnavailable: -1}",
		"serviceMonitor: {interval: '30'}", "replicas: 3000000000", "memory: 0MiB", "gateway: {caddyfile: \"a\\u0007b\"}",
		// Ports and a name that Stint has in the same pod.
		"sidecar: {port: 8080}", "sidecar: {port: 9090}", "sidecar: {container: {name: stint}}",
		"autoscaling: {enabled: true, min: 5, max: 2}",
	} {
		if _, err := render(t, c, values); err == nil {
			t.Errorf("%s is accepted", values)
		}
	}
}

// The notes warn of replicas that count by themselves.
func TestNotes(t *testing.T) {
	c := load(t)
	for values, warn := range map[string]bool{"": true, "replicas: 1": false, shared: false, "storeSecret: a": false} {
		rendered, err := render(t, c, values)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(rendered["stint/templates/NOTES.txt"], "WARNING"); got != warn {
			t.Errorf("%q: warns %v, want %v", values, got, warn)
		}
	}
}

// Each name that Helm accepts for a release makes names that Kubernetes accepts, and no label that YAML
// reads as a number.
func TestNames(t *testing.T) {
	c := load(t)
	service := regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
	names := map[string]string{}
	for _, release := range []string{"a", "stint", "xstinty", "123", "1-stint", "1e5", "true", "null", "my.release", strings.Repeat("x", 53), strings.Repeat("x", 52) + "y"} {
		for _, shape := range shapes {
			rendered, err := renderAs(t, c, release, "shape: "+shape+"\nstoreSecret: \"123\"\nadmin: {secret: \"1e5\"}\ngateway: {secrets: [tls.example.com]}")
			if err != nil {
				t.Fatal(err)
			}
			for document := range strings.SplitSeq(manifests(rendered), "\n---\n") {
				object, err := chartutil.ReadValues([]byte(document))
				if err != nil {
					t.Fatalf("%s: %v\n%s", release, err, document)
				}
				name, err := object.PathValue("metadata.name")
				if text, is := name.(string); err != nil || !is || !service.MatchString(text) {
					t.Errorf("%s: the name of %v is %v, %v", release, object["kind"], name, err)
				}
				if other, is := names[fmt.Sprint(object["kind"], name)]; is && other != release {
					t.Errorf("%s and %s share the %v %v", release, other, object["kind"], name)
				}
				names[fmt.Sprint(object["kind"], name)] = release
				noNumbers(t, release, object.AsMap())
			}
		}
	}
}

// noNumbers reports names and labels below an object that are no text, and names of volumes that have a dot.
func noNumbers(t *testing.T, release string, object any) {
	t.Helper()
	switch object := object.(type) {
	case []any:
		for _, element := range object {
			noNumbers(t, release, element)
		}
	case map[string]any:
		for key, value := range object {
			if key == "name" || key == "secretName" || key == "app.kubernetes.io/instance" {
				if text, is := value.(string); !is || object["secret"] != nil && strings.Contains(text, ".") {
					t.Errorf("%s: %s is %v", release, key, value)
				}
			}
			noNumbers(t, release, value)
		}
	}
}

// The checksum, with which a change starts new pods, changes with what the shape uses, and only then.
func TestChecksum(t *testing.T) {
	c := load(t)
	checksum := func(values string) string {
		t.Helper()
		rendered, err := render(t, c, values)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`checksum/config: ([0-9a-f]{64})\n`).FindStringSubmatch(manifests(rendered))
		if found == nil {
			t.Fatalf("%s: no checksum", values)
		}
		return found[1]
	}
	for _, shape := range shapes {
		before := checksum("shape: " + shape)
		for values, changes := range map[string]bool{
			"settings: {unmatched: deny}":         shape != "gateway",
			"memory: 1GiB":                        shape != "gateway",
			"drain: {delay: 11}":                  shape != "gateway",
			"gateway: {caddyfile: \":8080 { }\"}": shape == "gateway",
			"rules: {api.yaml: \"domain: a\"}":    false, // reloaded without a restart
			"replicas: 3":                         false,
		} {
			if got := checksum("shape: "+shape+"\n"+values) != before; got != changes {
				t.Errorf("%s, %s: the checksum changes: %v, want %v", shape, values, got, changes)
			}
		}
	}
}

// Values at their ends are rendered to what they say.
func TestEdges(t *testing.T) {
	c := load(t)
	text := func(values string) string {
		t.Helper()
		rendered, err := render(t, c, values)
		if err != nil {
			t.Fatal(err)
		}
		return manifests(rendered)
	}
	// No port for a store: a rule without ports would allow all.
	policy := text("networkPolicy: {enabled: true, storePorts: []}")
	_, egress, found := strings.Cut(policy, "  egress:\n")
	egress, _, _ = strings.Cut(egress, "---")
	if want := "    - ports:\n        - {port: 53, protocol: UDP}\n        - {port: 53, protocol: TCP}\n"; !found || egress != want {
		t.Errorf("without ports of a store the egress is %q, want %q", egress, want)
	}
	// Kubernetes before 1.33 refuses to sleep for no time.
	for delay, sleeps := range map[string]bool{"0": false, "1": true} {
		if got := strings.Contains(text("shape: gateway\ndrain: {delay: "+delay+"}"), "preStop"); got != sleeps {
			t.Errorf("delay %s: sleeps %v, want %v", delay, got, sleeps)
		}
	}
	// A Caddyfile may begin with spaces.
	files := 0
	for document := range strings.SplitSeq(text("shape: gateway\ngateway: {caddyfile: \"  :80 {\\n\\t}\\n---\\n\"}"), "\n---\n") {
		object, err := chartutil.ReadValues([]byte(document))
		if err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		if file, err := object.PathValue("data.Caddyfile"); err == nil {
			if files++; strings.TrimRight(fmt.Sprint(file), "\n") != "  :80 {\n\t}\n---" {
				t.Errorf("the Caddyfile is %q", file)
			}
		}
	}
	if files != 1 {
		t.Errorf("%d Caddyfiles", files)
	}
}
