package repository

import (
	"fmt"
	"go/ast"
	"path"
	"strconv"
	"strings"
)

// layer defines what the packages in some folders may import from this module.
type layer struct {
	dirs   []string
	may    []string
	reason string
}

// layers are the layers of the architecture: the first one with a matching folder counts. Imports
// point downwards only, and no package imports its sibling.
var layers = []layer{
	{
		[]string{"."},
		nil,
		"the vocabulary and the algorithms stand on the standard library alone",
	},
	{
		[]string{"internal/transaction"},
		[]string{".", "internal/limits"},
		"a transaction charges records, which limits decide about; stores know where these are",
	},
	{
		[]string{"internal/testkit"},
		[]string{".", "internal/text", "internal/urlpath"},
		"tests of any package use it, so it knows hardly any",
	},
	{
		[]string{"internal/testkit/samples"},
		[]string{"internal/testkit", "records", "records/apikey", "records/inforce", "rule", "rule/catalog"},
		"what tests decide by is what services decide by",
	},
	{
		[]string{"internal/testkit/*"},
		[]string{".", "internal/text", "internal/testkit"},
		"programs are known by their addresses and protocols alone",
	},
	{
		[]string{"internal/strictyaml/parser"},
		[]string{"internal/strictyaml"},
		"who reads bytes knows what is read; documents do not know the library",
	},
	{
		[]string{"internal/*", "internal/*/*"},
		[]string{".", "internal/text"},
		"a helper that knows its users helps nobody else",
	},
	{
		[]string{"fleet/lease"}, // only its tests can import the simulator, which imports it
		[]string{".", "fleet/sim", "internal/..."},
		"a node knows no other node; its tests drive it in the simulator",
	},
	{
		[]string{"fleet/sim"},
		[]string{".", "fleet/*", "internal/..."},
		"the simulator drives the nodes that it judges, and is their store itself",
	},
	{
		[]string{"fleet/gossip"},
		[]string{".", "fleet/gossip/wire", "internal/..."},
		"a node reads and writes messages in the one format that all nodes share",
	},
	{
		[]string{"fleet/gossip/wire"},
		[]string{".", "internal/..."},
		"the format of messages says nothing about what a node does with them",
	},
	{
		[]string{"fleet/gossip/members"},
		[]string{".", "fleet/gossip", "internal/..."},
		"what carries messages knows whose they are, and not what they mean",
	},
	{
		[]string{"store/*", "chain/*", "fleet/*"},
		[]string{".", "store/redis/connect", "store/redis/script", "store/memcached/meta", "store/storetest/model", "internal/..."},
		"a store knows keys and limits; rules and protocols are above it, other stores beside it",
	},
	{
		[]string{"store/storetest/*"},
		[]string{".", "internal/limits", "internal/transaction"},
		"the model of a store depends on no store and no test",
	},
	{
		[]string{"store/redis/script"},
		[]string{".", "internal/limits", "internal/transaction"},
		"what runs inside Redis is known by the limits that it decides, not by how it gets there",
	},
	{
		[]string{"store/memcached/meta"},
		nil,
		"a client of memcached sends commands and reads answers, and knows no limits",
	},
	{
		[]string{"store/redis/connect"},
		[]string{".", "internal/transaction", "store/redis/script"},
		"where a server is and what is wrong with it is read apart from what it is asked",
	},
	{
		[]string{"rule/ruletest"},
		[]string{".", "rule", "rule/rulefile", "limiter", "store/memory", "internal/..."},
		"tests of rules are written in the words of rules and decided as requests are; rules know nothing of them",
	},
	{
		[]string{"rule/modes"},
		[]string{".", "rule", "rule/audit", "internal/..."},
		"what rules admit is worked out from them alone",
	},
	{
		[]string{"cmd/stint/cli"},
		[]string{"app/settings", "cmd/stint/view", "facts/advice", "server/access", "records", "records/apikey", "records/trail", "internal/..."},
		"a command over the admin API asks a service; alone it can only verify a file of records",
	},
	{
		[]string{"cmd/stint/manual"},
		[]string{"cmd/stint/cli"},
		"what a terminal knows of commands follows from their table",
	},
	{
		[]string{"loadtest"},
		[]string{".", "internal/..."},
		"a load is sent and judged without knowing what answers",
	},
	{
		[]string{"cmd/stint/bench"},
		[]string{".", "cmd/stint/cli", "loadtest", "replay", "store/memory", "internal/..."},
		"a measurement asks a store, or a service from outside",
	},
	{
		[]string{"cmd/stint/view"},
		[]string{"internal/..."},
		"what is drawn is read from the admin API, as any other program would",
	},
	{
		[]string{"rule/audit"},
		[]string{".", "rule", "rule/action", "rule/denial", "rule/penalty", "internal/..."},
		"who looks for mistakes in rules reads them as they decide, and decides nothing",
	},
	{
		[]string{"rule/catalog/order"},
		nil,
		"rules are kept in order by their numbers",
	},
	{
		[]string{"rule/catalog"},
		[]string{".", "rule", "rule/catalog/order", "internal/..."},
		"a million rules are rules; those of files know nothing of them",
	},
	{
		[]string{"rule/catalog/*"},
		[]string{".", "rule", "rule/catalog", "internal/..."},
		"where rules per API come from is not known where they are matched",
	},
	{
		[]string{"rule/rulefile/hints"},
		[]string{"internal/..."},
		"what a word should have been follows from the word",
	},
	{
		[]string{"rule/rulefile"},
		[]string{".", "rule", "rule/action", "rule/denial", "rule/list", "rule/penalty", "rule/plan", "rule/token", "rule/rulefile/hints", "internal/..."},
		"rule files depend on bytes only, so that a file can be checked without a store or a server",
	},
	{
		[]string{"rule/list"},
		[]string{"rule", "rule/action", "rule/rulefile/hints", "internal/..."},
		"lists are read without knowing the limits of a file",
	},
	{
		[]string{"rule/penalty"},
		[]string{".", "rule", "rule/action", "internal/..."},
		"whom a penalty keeps away follows from the entries of its rule",
	},
	{
		[]string{"rule/*"},
		[]string{"internal/..."},
		"a part of rule files is read without knowing the whole",
	},
	{
		[]string{"rule"},
		[]string{".", "rule/action", "rule/denial", "internal/..."},
		"rules decide without knowing how files are read, so that a program without files links no parser",
	},
	{
		[]string{"records"},
		[]string{".", "records/*", "internal/..."},
		"records are looked up by their names; what they mean for a request is decided by who asks",
	},
	{
		[]string{"records/trail"},
		[]string{"records/replication", "internal/..."},
		"an audit trail is kept and verified without knowing what it is about",
	},
	{
		[]string{"records/dbfile"},
		[]string{"records/replication", "internal/..."},
		"a file with a fault is a fault whatever is in it, and outcomes of changes are kept without knowing what was changed",
	},
	{
		[]string{"records/index"},
		[]string{"internal/text"},
		"what is held in memory for look-ups needs no record",
	},
	{
		[]string{"records/replication"},
		[]string{".", "internal/..."},
		"copies are kept the same without knowing what is in them, and which server has the log",
	},
	{
		[]string{"store/redis/recordlog"},
		[]string{".", "notify", "records/replication", "store/redis/connect"},
		"the log of records in Redis knows numbers, hashes and bytes, no record; the queue of events there is that of notify",
	},
	{
		[]string{"records/inforce"},
		[]string{".", "records", "records/*", "limiter", "rule", "rule/catalog", "rule/catalog/book", "internal/..."},
		"a limiter asks an interface about clients, and rules per API know no records; who joins them knows both",
	},
	{
		[]string{"records/apikey"},
		[]string{"internal/..."},
		"a key is made and checked without knowing whose it is",
	},
	{
		[]string{"records/transfer"},
		[]string{".", "records", "records/apikey", "records/replication", "internal/..."},
		"records are written, read, imported and exported without knowing who asks",
	},
	{
		[]string{"notify"},
		[]string{".", "records/dbfile", "internal/..."},
		"events are delivered without knowing who counts, and which store keeps them",
	},
	{
		[]string{"load"},
		[]string{"internal/..."},
		"how busy something is says whoever knows; limiter is given a function that tells",
	},
	{
		[]string{"pace"},
		[]string{".", "internal/..."},
		"a caller waits for any store; it needs no rules and no server",
	},
	{
		[]string{"limiter/line"},
		[]string{"internal/system"},
		"who waits for whom follows from times and costs; what a limit is, lines need not know",
	},
	{
		[]string{"limiter"},
		[]string{".", "rule", "rule/catalog", "rule/denial", "limiter/line", "internal/..."},
		"the path of a request takes any store; which one it is, app decides",
	},
	{
		[]string{"limiter/*"},
		[]string{".", "rule", "rule/catalog", "rule/denial", "limiter", "internal/..."},
		"what middlewares share stands above limiter and below them",
	},
	{
		[]string{"facts/sketch"},
		nil,
		"a sketch estimates numbers of any stream; it stands on the standard library alone",
	},
	{
		[]string{"facts/denials"},
		[]string{"internal/..."},
		"a log is written, bounded and read without knowing who denies",
	},
	{
		[]string{"facts"},
		[]string{".", "facts/*", "rule", "rule/catalog", "limiter", "internal/..."},
		"facts come from verdicts; who shows them, and how nodes exchange them, they do not know",
	},
	{
		[]string{"telemetry/otlp"},
		[]string{".", "rule", "limiter", "internal/..."},
		"a trace shows what limiter decided, and knows nothing of the service around it",
	},
	{
		[]string{"telemetry"},
		[]string{".", "rule", "rule/catalog", "limiter", "limiter/line", "facts", "internal/..."},
		"telemetry is told what limiter decided, and nobody but app knows that it listens",
	},
	{
		[]string{"server/rls/transport"},
		[]string{"server/rls", "internal/..."},
		"what carries a protocol knows bytes and connections, and not what they mean",
	},
	{
		[]string{"server/httpapi/limitjson"},
		[]string{".", "rule", "limiter", "limiter/response", "internal/..."},
		"limits are read and shown in one form, wherever they are asked for",
	},
	{
		[]string{"server/access"},
		[]string{"internal/..."},
		"who may call is decided without knowing what is called",
	},
	{
		[]string{"server/ruleapi"},
		[]string{"rule", "rule/catalog", "rule/catalog/*", "internal/..."},
		"rules are shown and changed without knowing how they are asked",
	},
	{
		[]string{"server/recordapi"},
		[]string{"notify", "records", "records/apikey", "records/trail", "records/transfer", "rule", "server/access", "internal/..."},
		"records and deliveries are shown and changed without knowing how they are asked",
	},
	{
		[]string{"server/factsapi"},
		[]string{".", "facts", "facts/*", "rule", "server/access", "server/httpapi/limitjson", "limiter", "limiter/response", "limiter/why", "internal/..."},
		"facts, explanations and usage are shown without knowing who gathers them, and who knows the keys of customers",
	},
	{
		[]string{"dashboard"},
		[]string{"facts", "rule", "rule/audit", "server/access", "internal/..."},
		"the page asks the admin API, as any client does; only logins and the text of rules are its own",
	},
	{
		[]string{"server/*", "httplimit", "grpclimit", "gateway", "gateway/*"},
		[]string{".", "rule", "rule/denial", "server/httpapi/*", "server/access", "limiter", "limiter/*", "load", "internal/..."},
		"a protocol is a thin skin around limiter; app joins it with the others",
	},
	{
		[]string{"facts/advice"},
		[]string{".", "facts", "rule", "internal/..."},
		"advice follows from facts and rules alone",
	},
	{
		[]string{"replay/accesslog"},
		[]string{".", "internal/..."},
		"a line of a log is read without knowing what it is for",
	},
	{
		[]string{"replay/whatif"},
		[]string{".", "rule", "internal/..."},
		"what other limits would do is computed from takes, wherever they come from",
	},
	{
		[]string{"replay"},
		[]string{".", "replay/accesslog", "replay/whatif", "facts", "facts/advice", "rule", "limiter", "store/memory", "internal/..."},
		"a replay decides as the service does, in memory",
	},
	{
		[]string{"docs"},
		nil,
		"documents that the service hands out",
	},
	{
		[]string{"app", "app/settings", "app/stores"},
		[]string{
			".", "app/settings", "app/stores", "rule", "rule/audit", "rule/rulefile", "rule/catalog", "rule/catalog/*", "limiter", "limiter/reservation", "load", "notify", "records", "records/inforce", "records/trail", "store/*", "store/redis/connect", "store/redis/recordlog", "facts", "chain/*", "fleet/*", "fleet/gossip/members", "telemetry", "telemetry/otlp", "dashboard",
			"server/*", "server/httpapi/limitjson", "server/rls/transport", "httplimit", "grpclimit", "docs", "internal/...",
		},
		"app wires the service; commands and replay are not part of it",
	},
	{
		[]string{"cmd/*", "docs/..."},
		[]string{
			".", "rule", "rule/*", "rule/catalog/*", "limiter", "load", "records", "store/*", "store/redis/connect", "store/storetest/model", "chain/*", "fleet/*", "telemetry", "dashboard",
			"server/*", "httplimit", "grpclimit", "facts/advice", "replay", "replay/accesslog", "replay/whatif", "cmd/stint/*", "pace", "app", "app/settings", "internal/...",
		},
		"nothing imports a command",
	},
}

// forTests are the packages that the tests of any package may import in addition.
var forTests = []string{
	".", "loadtest", "rule/rulefile", "records", "records/apikey", "records/inforce", "store/memory", "store/redis/recordlog", "store/storetest", "store/storetest/*", "internal/...",
}

// importDirection reports imports that point upwards or sideways, and packages without a layer.
func importDirection(t *tree) []fault {
	var faults []fault
	for _, p := range t.pkgs {
		if p.module != "." {
			continue
		}
		l, ok := layerOf(p.dir)
		if !ok {
			faults = append(faults, fault(fmt.Sprintf("%s: this package is in no layer; "+
				"say in internal/repository (layers) what it may import, and why", p.dir)))
			continue
		}
		for _, f := range p.files {
			for _, spec := range f.ast.Imports {
				dir, ours := own(importPath(spec))
				if !ours || dir == p.dir || match(dir, l.may...) || f.test && match(dir, forTests...) {
					continue
				}
				faults = append(faults, t.at(spec.Pos(), "imports %s, but may import of ours only [%s]: %s",
					importPath(spec), strings.Join(l.may, " "), l.reason))
			}
		}
	}
	return faults
}

func layerOf(dir string) (layer, bool) {
	for _, l := range layers {
		if match(dir, l.dirs...) {
			return l, true
		}
	}
	return layer{}, false
}

// openExamples reports programs of examples that import an internal package: Go refuses it to the
// programs of others. The demo is no example of a program: it checks a fleet.
func openExamples(t *tree) []fault {
	var faults []fault
	for _, p := range t.pkgs {
		if p.module != "examples" || p.dir == "examples/demo" {
			continue
		}
		for _, f := range p.sources() {
			for _, spec := range f.ast.Imports {
				if dir, ours := own(importPath(spec)); ours && below(dir, "internal") {
					faults = append(faults, t.at(spec.Pos(), "imports %s: "+
						"an example imports only what the program of its reader can import", importPath(spec)))
				}
			}
		}
	}
	return faults
}

// rootForbids are imports that the root package must not have, with the reasons.
var rootForbids = map[string]string{
	"expvar":  "metrics belong to telemetry",
	"log":     "a library that logs decides for its user",
	"net":     "the network belongs to stores and servers",
	"os":      "the machine belongs to app",
	"runtime": "an algorithm does not depend on the machine it runs on",
	"sync":    "locks belong to stores",
	"unsafe":  "state is decoded by rules that can be checked",
}

// clocks are the functions of package time that read or wait for the clock.
var clocks = map[string]bool{
	"After": true, "AfterFunc": true, "NewTicker": true, "NewTimer": true, "Now": true,
	"Since": true, "Sleep": true, "Tick": true, "Until": true,
}

// rootIsPure reports anything that makes the root package depend on more than its arguments: a
// library outside the standard library, a lock, a clock, a goroutine.
func rootIsPure(t *tree) []fault {
	var faults []fault
	for _, p := range t.pkgs {
		if p.dir != "." {
			continue
		}
		for _, f := range p.sources() {
			for _, spec := range f.ast.Imports {
				name := importPath(spec)
				top, _, _ := strings.Cut(name, "/")
				if why, bad := rootForbids[top]; bad {
					faults = append(faults, t.at(spec.Pos(), "the root package imports %s: %s", name, why))
				} else if strings.Contains(top, ".") {
					faults = append(faults, t.at(spec.Pos(), "the root package imports %s: "+
						"it stands on the standard library alone", name))
				}
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					faults = append(faults, t.at(n.Pos(), "the root package starts a goroutine: its user decides what runs"))
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && clocks[n.Sel.Name] {
						faults = append(faults, t.at(n.Pos(), "the root package uses time.%s: time is an argument", n.Sel.Name))
					}
				}
				return true
			})
		}
	}
	return faults
}

// own returns the folder of an import path, and whether it is in the root module.
func own(importPath string) (dir string, ours bool) {
	if importPath == modulePath {
		return ".", true
	}
	dir, ours = strings.CutPrefix(importPath, modulePath+"/")
	return path.Clean(dir), ours
}

func importPath(spec *ast.ImportSpec) string {
	// The parser has checked that it is a string literal.
	name, _ := strconv.Unquote(spec.Path.Value)
	return name
}
