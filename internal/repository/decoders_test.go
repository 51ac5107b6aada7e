package repository

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// measured means that a test named frugalTest in the package limits how much the decoders of a file
// allocate for each byte of input.
const (
	measured   = "measured"
	frugalTest = "TestDecodersAreFrugal"
)

// decoders are all files that decode bytes, each with how its memory is limited: measured; "by
// FOLDER" for a package whose test runs its inputs through this file; or the reason why untrusted
// clients cannot send its input. To add a decoder, add it here, with its test if it reads from the
// network.
var decoders = map[string]string{
	"server/rls/wire.go":                 measured,
	"server/rls/json_request.go":         measured,
	"server/rls/json.go":                 measured,
	"server/rls/transport/grpc.go":       "by server/rls", // it copies a request once, which that test counts
	"server/httpapi/authquery.go":        measured,
	"server/httpapi/carrier.go":          measured,
	"server/httpapi/decode.go":           measured,
	"server/httpapi/inspect.go":          measured,
	"limiter/reservation/text.go":        measured,
	"server/httpapi/batch.go":            measured,
	"load/api.go":                        measured,
	"server/factsapi/why.go":             "by server/httpapi", // whose ReadCheck decodes the body
	"cmd/stint/cli/top.go":               "answers of the service that the command asks",
	"server/ruleapi/api.go":              measured,
	"server/ruleapi/import.go":           measured,
	"internal/jsonbody/resource.go":      "by server/ruleapi",
	"server/recordapi/api.go":            measured,
	"facts/nodes.go":                     "summaries that nodes of ours wrote to their Redis, at most 64 MiB each",
	"facts/state.go":                     "a file that this program wrote",
	"facts/denials/denials.go":           "a file that this program wrote",
	"facts/sketch/histogram.go":          "a file that this program wrote, and summaries of nodes of ours",
	"server/recordapi/record.go":         measured,
	"records/transfer/file.go":           "by server/recordapi", // imports
	"records/transfer/fields.go":         "a rule in a file that this program wrote",
	"rule/catalog/book/csv.go":           measured, // imports
	"rule/catalog/book/jsonl.go":         measured,
	"dashboard/dashboard.go":             measured,
	"fleet/gossip/wire/reader.go":        measured,
	"internal/web/query.go":              measured,
	"rule/token/token.go":                measured,
	"rule/action/device_cookie.go":       "takes cookies of one length only",
	"rule/token/jwks.go":                 "a key set, of an address that the rules name, is at most 1 MiB",
	"rule/token/fetch.go":                "a key set, of an address that the rules name, is at most 1 MiB",
	"fleet/gossip/members/key.go":        "a file of the operator",
	"sliding_log.go":                     "a state, which a store of ours wrote",
	"rule/catalog/book/ratelimiter4j.go": "files of the operator; imports over HTTP know no such format",
	"rule/catalog/book/disk_encode.go":   "a file that this program wrote",
	"records/dbfile/value.go":            "a file that this program wrote",
	"records/replication/log.go":         "changes that nodes of ours wrote to their Redis",
	"rule/rulefile/http.go":              "files of the operator",
	"rule/denial/template.go":            "files of the operator",
	"server/access/access.go":            "a file of the operator",
	"replay/accesslog/input.go":          "files of the operator",
	"replay/whatif/sweep.go":             "bytes that it wrote itself",
	"cmd/stint/check_plans.go":           "a file of the user",
	"cmd/stint/check_grants.go":          "a file of the user",
	"cmd/stint/cli/plans.go":             "answers of a service that the operator names",
	"facts/advice/lines.go":              "rule files of the operator",
	"fleet/quota/save.go":                "a file that this program wrote",
	"internal/limits/book.go":            "decisions and reservations that programs of ours wrote",
	"internal/transaction/encode.go":     "what programs of ours wrote: a snapshot, an item of memcached, or a value of Redis",
	"store/memory/file.go":               "a file that this program wrote",
	"app/stores/durable.go":              "a file that this program wrote",
	"internal/system/blocks.go":          "a file that this program wrote",
	"store/redis/connect/url.go":         "a setting",
	"store/memcached/url.go":             "a setting",
	"store/memcached/counters.go":        "numbers that it encoded itself",
	"store/memcached/meta/link.go":       "answers of the memcached that the operator names, each bounded by its own length",
	"loadtest/fleet.go":                  "the services that a test calls",
	"loadtest/http.go":                   "at most 1 MiB of the service that the user measures",
	"loadtest/store_calls.go":            "the Redis that a test started",
	"loadtest/resp.go":                   "at most 1 MiB of the service that the user measures",
	"notify/sign.go":                     "a file of the operator",
	"cmd/stint/cli/webhooks.go":          "at most 64 MiB of a service that the user names",
	"cmd/stint/view/changes.go":          "at most 64 MiB of a service that the user names",
	"store/redis/recordlog/deliver.go":   "events that nodes of ours wrote to their Redis",
	"cmd/stint/cli/admin.go":             "at most 64 MiB of a service that the user names",
	"cmd/stint/cli/show.go":              "at most 64 MiB of a service that the user names",
	"cmd/stint/cli/audit.go":             "at most 64 MiB of a service that the user names",
	"cmd/stint/cli/transfer.go":          "at most 64 MiB of a service that the user names",
	"cmd/stint/cli/cli.go":               "a file of the user",
}

// decoding are the calls that decode bytes, by package; "" is any package.
var decoding = map[string][]string{
	"json":      {"NewDecoder", "Unmarshal"},
	"io":        {"ReadAll"},
	"jsonbody":  {"Read", "Objects"},
	"url":       {"ParseQuery", "QueryUnescape", "PathUnescape"},
	"csv":       {"NewReader"},
	"bufio":     {"NewReader", "NewReaderSize", "NewScanner"},
	"binary":    {"Uvarint", "Varint", "ReadUvarint"},
	"xml":       {"Unmarshal", "NewDecoder"},
	"gob":       {"NewDecoder"},
	"proto":     {"Unmarshal"},
	"protowire": {"ConsumeTag", "ConsumeVarint", "ConsumeBytes", "ConsumeFieldValue"},
	"data":      {"CopyTo"}, // the bytes that grpc-go received
	"":          {"DecodeString", "ParseWithClaims", "ParseUnverified", "ParseForm", "ParseMultipartForm", "Cookies"},
}

// decodes reports whether a call decodes bytes.
func decodes(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, name := selector(call.Fun)
	return slices.Contains(decoding[pkg], name) || slices.Contains(decoding[""], sel.Sel.Name)
}

// unlistedDecoders reports files that decode and are not in the list, files of the list that do not
// decode, and missing tests of the list.
func unlistedDecoders(t *tree, list map[string]string) (faults []string) {
	seen := map[string]bool{}
	tests := map[string]bool{}
	for _, p := range t.pkgs {
		helper := p.module != "." || forTesting(p) || below(p.dir, "docs") || below(p.dir, "internal/testkit") || below(p.dir, "store/storetest")
		for _, f := range p.files {
			for _, d := range f.ast.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && f.test && fn.Name.Name == frugalTest {
					tests[p.dir] = true
				}
			}
			if f.test || helper {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && decodes(call) {
					seen[f.path] = true
				}
				return true
			})
		}
	}
	for file := range seen {
		if list[file] == "" {
			faults = append(faults, file+" decodes bytes and is not listed: add it to decoders, with a test "+frugalTest+" if strangers can send them")
		}
	}
	for file, how := range list {
		dir, by := strings.CutPrefix(how, "by ")
		if !by {
			dir = path.Dir(file)
		}
		switch {
		case !seen[file]:
			faults = append(faults, file+" is listed and decodes nothing")
		case (by || how == measured) && !tests[dir]:
			faults = append(faults, fmt.Sprintf("%s has no %s, which is to measure %s", dir, frugalTest, file))
		}
	}
	slices.Sort(faults)
	return faults
}

// Every decoder of network input is measured.
func TestDecoders(t *testing.T) {
	repo, err := load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range unlistedDecoders(repo, decoders) {
		t.Error(fault)
	}
}

// A new decoder, a removed one and a missing test are reported.
func TestDecodersAreMissed(t *testing.T) {
	const decoder = "package a\n\nfunc f(b []byte) { _ = json.Unmarshal(b, nil) }\n"
	const test = "package a\n\nfunc TestDecodersAreFrugal() {}\n"
	for _, tt := range []struct {
		files src
		list  map[string]string
		want  string
	}{
		{src{"a/a.go": decoder}, nil, "a/a.go decodes bytes and is not listed"},
		{src{"a/a.go": "package a\n"}, map[string]string{"a/a.go": measured}, "a/a.go is listed and decodes nothing"},
		{src{"a/a.go": decoder}, map[string]string{"a/a.go": measured}, "a has no TestDecodersAreFrugal"},
		{src{"a/a.go": decoder, "b/b.go": "package b\n", "b/b_test.go": "package b\n\nfunc TestDecodersAreFrugal() {}\n"}, map[string]string{"a/a.go": "by b"}, ""},
		{src{"a/a.go": decoder, "a/a_test.go": test}, map[string]string{"a/a.go": measured}, ""},
		{src{"a/a.go": decoder}, map[string]string{"a/a.go": "a file of the operator"}, ""},
	} {
		small, err := load(tt.files.fs())
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(unlistedDecoders(small, tt.list), "; ")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%v: %q, want %q", tt.files, got, tt.want)
		}
	}
}
