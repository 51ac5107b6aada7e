package audit

// Kind is a kind of finding. Its ID never changes in later versions.
type Kind struct {
	ID       string
	Severity Severity
	Means    string // what the finding means, in one sentence
	Do       string // how to correct it
}

// Kinds are all kinds of findings. The first two are reported by `stint check` itself.
var Kinds = []Kind{
	{"fault", Error, "A file cannot be read, or its rules are invalid.", "Correct it; the service refuses the file."},
	{"failed-test", Error, "The result of a rule test differs from the expected one.", "Correct the rules or the test."},

	{"unreachable-rule", Warning, "This descriptor never matches: an earlier pattern matches all of its values.", "Put the more specific pattern first, or remove one of the two."},
	{"hidden-below", Warning, "A descriptor matches some values of a wider one. The limits below the wider descriptor do not apply to these values, because matching never goes back to it.", "Repeat those limits below the descriptor."},
	{"empty-descriptor", Warning, "A descriptor has no limit and no descriptors below it, and it hides no other.", "Give it a limit, or remove it."},
	{"line-break", Warning, "A name, a key or a value contains a line break, so hardly any request matches it.", "Write it in one line, or in quotes."},
	{"unused-default", Warning, "A default beside `domain:`, such as coordination, applies to no limit of the file: each limit sets its own value or does not use it.", "Remove it, or add a limit that uses it."},
	{"let-pass", Warning, "A file that is read as envoyproxy/ratelimit reads it (`envoy-env`, `check --env`) contains something that Stint otherwise refuses.", "Correct it."},
	{"mode-without-limit", Warning, "shadow_mode or quota_mode is set on a descriptor without a limit. It has no effect on the descriptors below.", "Move it to the descriptor with the limit."},
	{"double-name", Warning, "Two rules have the same name; the second is shown with its path.", "Give each its own name, unless one `replaces` is to drop both."},
	{"double-list-name", Warning, "Two lists, or a list and a rule, have the same name, so answers, logs and metrics cannot tell them apart.", "Give each its own name."},
	{"replaces-nobody", Warning, "A limit replaces a name that no limit of the domain has.", "Correct the name."},

	{"plan-without-limit", Warning, "A plan has no limits of the name that a rule asks for, so its clients are denied there.", "Add them to the plan."},
	{"plan-unknown", Warning, "With `--records`: subjects have a plan that neither the rules nor the records have.", "Add the plan, or give them another one."},
	{"plan-unused", Note, "With `--records`: no subject has this plan.", "Remove it, or give it to somebody."},
	{"grant-useless", Warning, "With `--records`: no request can use this grant: no rule takes its limit from the subject's plan, that plan lacks the limit, or nodes refuse the grant.", "Correct its subject, its limit or its numbers, or remove it."},
	{"grant-no-subject", Note, "With `--records`: a grant is of a subject that the records do not have, so the default plan counts for it.", "Check the subject, or give it a plan."},
	{"grant-ended", Note, "With `--records`: a grant has ended.", "Remove it."},

	{"zero-requests", Warning, "A limit of 0 requests denies every request that it matches.", "Write `unlimited: true` if all should pass."},
	{"octal-number", Warning, "A number begins with a zero, so YAML reads it as octal: `010` is eight.", "Remove the leading zero."},
	{"unlimited-number", Warning, "A number is set beside `unlimited: true`.", "Remove one of the two."},
	{"never-denies", Warning, "A limit is looser than another one that always applies with it, so it never denies a request.", "Tighten it, or remove it."},
	{"cost-above-limit", Warning, "A request costs more than the capacity of a limit, so it is always denied.", "Raise the limit (or the burst), or lower the cost."},
	{"soft-adds-nothing", Warning, "The soft part of a limit is less than one request.", "Write a larger part, or remove it."},
	{"rounded-rate", Warning, "The time for one request is rounded to whole microseconds, which lowers the rate by more than 1 %.", "Choose a rate that divides evenly, or a window algorithm."},
	{"large-log", Warning, "The state of one key of a sliding_log may be larger than 64 KiB.", "Use a sliding_window with blocks."},
	{"equal-candidate", Warning, "A candidate says the same as its limit, so it shows nothing.", "Write other numbers or another algorithm, or remove it."},
	{"candidate-penalty", Note, "A limit with a candidate has a penalty, whose steps follow the denials of the limit in force. The candidate does not show how they would change.", "Keep it in mind when you read the numbers of the candidate."},
	{"unseen-answers", Warning, "A limit counts responses, but no caller reports responses to it.", "Use the middleware, settle with reserve, or count requests."},
	{"account-lockout", Warning, "A limit has a penalty and counts by an account alone, so others can shut its owner out: they only need to know the name.", "Count by the pair of account and address, or of account and device."},
	{"excess-dropped", Warning, "A limit has an excess of `wait` or `queue`, but no http section: whoever sends descriptors has these requests denied at once.", "Use the middleware or the gateway, which read the http section, or remove the excess."},
	{"denial-in-shadow", Warning, "A limit in shadow mode has a denial, which no client ever receives.", "Remove one of the two."},

	{"action-without-rule", Warning, "The actions of an element produce descriptors that no rule matches.", "The keys of the actions, in their order, are the keys of nested descriptors."},
	{"passed-by", Warning, "The http section produces descriptors that continue below this limit, and none that ends at it. Only the node of the last entry counts.", "Add an element whose actions end there, or use `groups`."},
	{"impossible-value", Warning, "The action of a key never produces this value.", "Write the value as the action produces it."},
	{"endless-key", Warning, "A limit has one bucket for each path, query or user agent, and no other limit restricts a client that sends new ones. Each new value has a full bucket and uses memory.", "Count by `route`, or add a limit by address beside it."},
	{"plain-secret", Warning, "A limit has one bucket for each value of a header that contains a secret, such as `authorization`. Everybody who can read the store can read the secret.", "Describe the request by `api_key` or `cookie`, which store only a SHA-256."},

	{"uncounted-request", Note, "A client may omit everything that the http section counts by; such a request passes uncounted.", "Add an element that every request has, such as `remote_address`, unless a proxy in front refuses requests without it."},
	{"no-fallback", Note, "All descriptors of a key have exact values (`plan: free`, `plan: pro`), so any other value is not limited. Not reported for what a request asks for, such as its path.", "Add a descriptor of the key without a value, or deny such requests with `--unmatched deny`."},
	{"claimed-key", Note, "A limit has one bucket for each value that a client states about itself, or such a value replaces another identity (`first_of: [api_key, remote_address]`). No other limit restricts a client that invents new values.", "Add an element with a limit by address, unless a proxy in front authenticates users."},
	{"outside-http", Note, "The http section never produces descriptors for these limits. Only callers that send descriptors themselves (`/v1/check`, Envoy) reach them.", "Add elements for them if requests of the middleware should count."},
	{"excess-elsewhere", Note, "A limit has an excess of `wait` or `queue`, which only the middleware (`wait`) and the gateway know. Everybody else denies these requests at once.", "Expect denials elsewhere."},
	{"identity-elsewhere", Note, "The http section has the action `identity`. Only the gateway, and a server with the middleware that authenticates its clients, know an identity; everybody else ignores such an element.", "Use another action where this domain is asked in another way."},
	{"overdraw-peek", Note, "A peek (0 hits) at an overdrawn limit is OVER_LIMIT in Envoy's protocol, and allowed everywhere else.", "Keep it in mind if you read the answers of both."},
	{"strict", Note, "With `--modes`: how the nodes agree on a limit without a `coordination`, how much passes beyond it, and how much while the store is away.", "See [coordination](coordination.md)."},
	{"while-away", Note, "How much passes beyond a limit while the store is away.", "Lower `local_share`, or accept it."},
	{"leased", Note, "How the nodes agree on a limit with `coordination: leased`, how much passes beyond it, and how much while the store is away.", "See [coordination](coordination.md)."},
	{"gossip", Note, "How much passes beyond a limit with `coordination: gossip`, normally and while the nodes cannot reach each other.", "See [coordination](coordination.md#gossip)."},
	{"eventual", Note, "How much passes beyond a limit with `coordination: eventual`, while the store is away, and when a node is killed.", "See [coordination](coordination.md#eventual)."},
	{"durable", Note, "What the store may lose of a limit with `durable`, and what passes after that.", "See [durable limits](usage.md#durable-limits)."},
	{"moved-keys", Note, "How much passes beyond a limit when the servers of the store change.", "Change them while there is little traffic."},
}

var severity = func() map[string]Severity {
	m := make(map[string]Severity, len(Kinds))
	for _, k := range Kinds {
		m[k.ID] = k.Severity
	}
	return m
}()

func severityOf(id string) Severity { return severity[id] }
