package audit

// Kind is a kind of finding. Its id stays what it is in all versions.
type Kind struct {
	ID       string
	Severity Severity
	Means    string // what was found, in one sentence
	Do       string // what to do
}

// Kinds are all kinds of findings, those of `stint check` itself first.
var Kinds = []Kind{
	{"fault", Error, "A file cannot be read, or says what no rules can.", "Correct it; the service refuses it."},
	{"failed-test", Error, "A rule test is answered otherwise than it expects.", "Correct the rules, or the test."},

	{"unreachable-rule", Warning, "No descriptor ever comes to this place: an earlier pattern takes all that it matches.", "Put the more special pattern first, or leave one of the two out."},
	{"hidden-below", Warning, "A node takes its values away from a wider one, and limits that stand below that one do not hold for them: there is no way back.", "Repeat those limits below the node."},
	{"empty-descriptor", Warning, "A descriptor without a limit and without descriptors, which hides no other.", "Give it a limit, or leave it out."},
	{"line-break", Warning, "A name, a key or a value has a line break, so hardly any request has the same.", "Write it in one line, or in quotes."},
	{"unused-default", Warning, "A word beside `domain:`, such as coordination, that no limit of the file takes: each says it itself, or has no use for it.", "Leave it out, or say in the limits what makes use of it."},
	{"let-pass", Warning, "A file that is read as envoyproxy/ratelimit reads it (`envoy-env`, `check --env`) holds what is refused elsewhere.", "Write what is meant."},
	{"mode-without-limit", Warning, "shadow_mode or quota_mode stands on a descriptor without a limit; it does not concern those below.", "Put it where the limit is."},
	{"double-name", Warning, "Two rules have one name; the second is shown with its path.", "Give each a name of its own, unless one `replaces` is to drop both."},
	{"double-list-name", Warning, "Two lists, or a list and a rule, have one name: answers, logs and metrics do not tell them apart.", "Give each a name of its own."},
	{"replaces-nobody", Warning, "A limit replaces a name that no limit of the domain bears.", "Correct the name."},

	{"zero-requests", Warning, "A limit of 0 requests denies all that it matches, for ever.", "Write `unlimited: true` if all should pass."},
	{"octal-number", Warning, "A number begins with a zero, and YAML reads it by base eight: `010` is eight.", "Write the number without the zero."},
	{"unlimited-number", Warning, "A number stands beside `unlimited: true`.", "Leave one of the two out."},
	{"never-denies", Warning, "A limit is looser than another that is always asked with it, so it never denies anybody.", "Tighten it, or leave it out."},
	{"cost-above-limit", Warning, "A request costs more than a limit can ever hold, so it is always denied.", "Raise the limit (or the burst), or lower the cost."},
	{"soft-adds-nothing", Warning, "The soft part of a limit is less than one request.", "Write a larger part, or leave it out."},
	{"rounded-rate", Warning, "A rate is rounded to whole microseconds, and loses more than 1 %.", "Choose a rate that divides, or an algorithm that counts."},
	{"large-log", Warning, "A sliding_log may take more than 64 KiB for one key.", "Take a sliding_window with blocks."},
	{"unseen-answers", Warning, "A limit counts responses, and nobody shows any.", "Use the middleware, or count requests."},
	{"denial-in-shadow", Warning, "A limit in shadow mode has a denial, which nobody will see.", "Leave one of the two out."},

	{"action-without-rule", Warning, "Actions describe requests in a way that no descriptor knows.", "The keys of the actions, in their order, are the keys of nested descriptors."},
	{"passed-by", Warning, "The http section describes requests beyond this limit, and never up to it: only the node of the last entry counts.", "Add an element whose actions end there, or use `groups`."},
	{"impossible-value", Warning, "A value that the action of its key never says.", "Write the value as the action says it."},
	{"endless-key", Warning, "A limit has a bucket for each path, query or user agent, and no limit beside it bounds who makes up new ones: each has a full bucket, and takes memory.", "Count by `route`, or put a limit by address beside it."},
	{"plain-secret", Warning, "A limit has a bucket for each value of a header that holds a secret, such as `authorization`, and whoever reads the store reads it.", "Describe the request by `api_key` or `cookie`, which take its SHA-256."},

	{"uncounted-request", Note, "All that the http section counts by, a client may leave out; such a request passes uncounted.", "Add an element that every request has, such as `remote_address`, unless what stands in front lets nobody through without it."},
	{"no-fallback", Note, "All descriptors of a key have exact values (`plan: free`, `plan: pro`), so any other value is not limited. Not found for what a request asks for, such as its path.", "Add a descriptor of the key without a value, or deny such requests with `--unmatched deny`."},
	{"claimed-key", Note, "A limit has a bucket for each value that a client says of itself, or such a value takes the place of another identity (`first_of: [api_key, remote_address]`), and no limit beside it bounds who makes up new ones.", "Put a limit by address beside it, in an element of its own, unless what signs users in stands in front."},
	{"outside-http", Note, "The http section never describes a request so that these limits are asked; who brings descriptors (`/v1/check`, Envoy) may.", "Add elements for them if requests of the middleware should count."},
	{"overdraw-peek", Note, "A look (0 hits) at an overdrawn limit is OVER_LIMIT in Envoy's protocol, and allowed everywhere else.", "Know it where you read the answers of both."},
	{"strict", Note, "With `--modes`: how the nodes agree on a limit where nothing else is said, what passes beyond it, and while the store is away.", "See [coordination](coordination.md)."},
	{"while-away", Note, "What passes beyond a limit while the store is away.", "Lower `local_share`, or accept it."},
	{"leased", Note, "How the nodes agree on a limit that says `coordination: leased`, what passes beyond it, and while the store is away.", "See [coordination](coordination.md)."},
	{"gossip", Note, "How much passes beyond a limit that says `coordination: gossip`, and where the fleet is cut into parts.", "See [coordination](coordination.md#gossip)."},
	{"eventual", Note, "How much passes beyond a limit that says `coordination: eventual`, while the store is away, and when a node is killed.", "See [coordination](coordination.md#eventual)."},
	{"moved-keys", Note, "What passes beyond a limit when the servers of the store change.", "Change them when it is quiet."},
}

var severity = func() map[string]Severity {
	m := make(map[string]Severity, len(Kinds))
	for _, k := range Kinds {
		m[k.ID] = k.Severity
	}
	return m
}()

func severityOf(id string) Severity { return severity[id] }
