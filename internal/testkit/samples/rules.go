package samples

import (
	"encoding/csv"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"strconv"
	"strings"

	"stint/rule"
	"stint/rule/catalog"
)

var (
	products  = []string{"shop", "search", "billing", "ledger", "mail", "media", "maps", "chat", "docs", "jobs"}
	resources = []string{"orders", "items", "invoices", "users", "accounts", "files", "images", "messages", "threads", "reports", "events", "sessions"}
	methods   = []string{"", "", "GET ", "GET ", "POST ", "DELETE "}
	times     = []string{"sec", "minute", "minute", "hour", "day", "10s", "15m"}
	plans     = []string{"plan:free", "plan:team", "plan:gold"}
)

// Rules yields n rules per API, always the same for the same seed, as a large platform has them: hundreds of services with resources, most of
// them with an ID in the path; rules for all users together, for each user, for plans, and for
// single users. Most are fixed windows. A catalog accepts all of them; no yielded error is ever
// non-nil.
func Rules(n int, seed uint64) iter.Seq2[catalog.Rule, error] {
	return func(yield func(catalog.Rule, error) bool) {
		random := rand.New(rand.NewPCG(seed, 1))
		for i := range n {
			r := catalog.Rule{
				ID: "r" + strconv.Itoa(i), URL: url(i / 3), UID: uid(i, random),
				Time: times[random.IntN(len(times))], Requests: uint64(5 * (1 + random.IntN(200))),
			}
			switch random.IntN(20) {
			case 0, 1:
				r.Algorithm, r.Burst = "token_bucket", 2*r.Requests
			case 2:
				r.Algorithm = "sliding_log"
			case 3:
				r.Policy = "deny"
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// url returns pattern number p; patterns with different numbers differ.
func url(p int) string {
	service := products[p%len(products)] + strconv.Itoa(p/len(products)%50)
	number := p / len(products) / 50
	resource := resources[number%len(resources)] + strconv.Itoa(number/len(resources))
	path := methods[p%len(methods)] + "/v" + strconv.Itoa(1+p%2) + "/" + service + "/" + resource
	switch p % 10 {
	case 0:
		return path
	case 1:
		return path + "/"
	case 2:
		return path + "{/...}"
	case 3:
		return path + "/{id:[0-9]+}"
	case 4, 5:
		return path + "/{id}/lines/{line}"
	}
	return path + "/{id}"
}

// uid returns the uid of rule number i. Of three rules with the same url, one is for all users, one
// for each user or a plan, and one for a user.
func uid(i int, random *rand.Rand) string {
	switch i % 3 {
	case 0:
		return "all"
	case 1:
		if random.IntN(2) == 0 {
			return "*"
		}
		return plans[random.IntN(len(plans))]
	}
	return fmt.Sprintf("user-%05d", random.IntN(100_000))
}

// WriteCSV writes the rules of Rules as CSV.
func WriteCSV(w io.Writer, n int, seed uint64) error {
	out := csv.NewWriter(w)
	for r, err := range Rules(n, seed) {
		if err != nil {
			return err
		}
		burst := ""
		if r.Burst > 0 {
			burst = strconv.FormatUint(r.Burst, 10)
		}
		row := []string{r.ID, r.UID, r.URL, r.Time, strconv.FormatUint(r.Requests, 10), r.Algorithm, burst, r.Domain, r.Policy}
		if err := out.Write(row); err != nil {
			return fmt.Errorf("writing rules: %w", err)
		}
	}
	out.Flush()
	return out.Error()
}

var segments = strings.NewReplacer(
	"{id:[0-9]+}", "42", "{id}", "42", "{line}", "3", "{/...}", "/below/it",
)

// Asking returns a request that a rule of Rules matches, by the user of that rule or by any user.
func Asking(r *catalog.Rule) []rule.Entry {
	method, path, ok := strings.Cut(r.URL, " ")
	if !ok {
		method, path = "GET", r.URL
	}
	if path = segments.Replace(path); strings.HasSuffix(path, "/") {
		path += "style.css"
	}
	user, plan := "somebody", "gold"
	switch {
	case strings.HasPrefix(r.UID, "user-"):
		user = r.UID
	case strings.HasPrefix(r.UID, "plan:"):
		plan = r.UID[len("plan:"):]
	}
	return []rule.Entry{{Key: "method", Value: method}, {Key: "path", Value: path}, {Key: "user", Value: user}, {Key: "plan", Value: plan}}
}
