package transfer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"stint/internal/jsonbody"
	"stint/internal/text"
	"stint/records"
	"stint/records/apikey"
)

// Fields are the fields of a record of any kind as they are written: times as in RFC 3339, lengths
// of time such as 1m, hashes in hexadecimal digits. Empty fields are left out.
type Fields struct {
	Record     string   `json:"record,omitempty"` // the kind of the record; only in files
	Hash       string   `json:"hash,omitempty"`
	Last       string   `json:"last,omitempty"`
	Subject    string   `json:"subject,omitempty"`
	Pattern    string   `json:"pattern,omitempty"`
	Address    string   `json:"address,omitempty"`
	Network    string   `json:"network,omitempty"`
	Rule       string   `json:"rule,omitempty"`
	Kind       string   `json:"kind,omitempty"`
	Plan       string   `json:"plan,omitempty"`
	Groups     []string `json:"groups,omitempty"`
	Notes      string   `json:"notes,omitempty"`
	Subscribed string   `json:"subscribed,omitempty"`
	PlanUntil  string   `json:"plan_until,omitempty"`
	NextPlan   string   `json:"next_plan,omitempty"`
	NextFrom   string   `json:"next_from,omitempty"`
	ID         string   `json:"id,omitempty"`
	UID        string   `json:"uid,omitempty"`
	URL        string   `json:"url,omitempty"`
	Time       string   `json:"time,omitempty"`
	Requests   *uint32  `json:"requests,omitempty"`
	Per        string   `json:"per,omitempty"`
	Burst      uint32   `json:"burst,omitempty"`
	Unlimited  bool     `json:"unlimited,omitempty"`
	Algorithm  string   `json:"algorithm,omitempty"`
	Domain     string   `json:"domain,omitempty"`
	Policy     string   `json:"policy,omitempty"`
	Replaces   string   `json:"replaces,omitempty"`
	ReplacedBy string   `json:"replaced_by,omitempty"`
	Until      string   `json:"until,omitempty"`
	Why        string   `json:"why,omitempty"`

	Limits json.RawMessage `json:"limits,omitempty"` // of a plan: an object

	Limit    string  `json:"limit,omitempty"` // of a grant: the name of a limit in plans
	Units    uint32  `json:"units,omitempty"`
	Priority *uint32 `json:"priority,omitempty"`
	From     string  `json:"from,omitempty"`
}

// column is a field by name.
type column struct {
	name string
	of   func(f *Fields) any // a *string, *uint32, **uint32, *bool, *[]string or *json.RawMessage
}

// columns are all fields but the kind of the record, in the order of CSV files.
var columns = []column{
	{"hash", func(f *Fields) any { return &f.Hash }},
	{"last", func(f *Fields) any { return &f.Last }},
	{"subject", func(f *Fields) any { return &f.Subject }},
	{"pattern", func(f *Fields) any { return &f.Pattern }},
	{"address", func(f *Fields) any { return &f.Address }},
	{"network", func(f *Fields) any { return &f.Network }},
	{"rule", func(f *Fields) any { return &f.Rule }},
	{"kind", func(f *Fields) any { return &f.Kind }},
	{"plan", func(f *Fields) any { return &f.Plan }},
	{"groups", func(f *Fields) any { return &f.Groups }},
	{"notes", func(f *Fields) any { return &f.Notes }},
	{"subscribed", func(f *Fields) any { return &f.Subscribed }},
	{"plan_until", func(f *Fields) any { return &f.PlanUntil }},
	{"next_plan", func(f *Fields) any { return &f.NextPlan }},
	{"next_from", func(f *Fields) any { return &f.NextFrom }},
	{"requests", func(f *Fields) any { return &f.Requests }},
	{"per", func(f *Fields) any { return &f.Per }},
	{"burst", func(f *Fields) any { return &f.Burst }},
	{"unlimited", func(f *Fields) any { return &f.Unlimited }},
	{"replaces", func(f *Fields) any { return &f.Replaces }},
	{"replaced_by", func(f *Fields) any { return &f.ReplacedBy }},
	{"until", func(f *Fields) any { return &f.Until }},
	{"why", func(f *Fields) any { return &f.Why }},
	{"id", func(f *Fields) any { return &f.ID }},
	{"uid", func(f *Fields) any { return &f.UID }},
	{"url", func(f *Fields) any { return &f.URL }},
	{"time", func(f *Fields) any { return &f.Time }},
	{"algorithm", func(f *Fields) any { return &f.Algorithm }},
	{"domain", func(f *Fields) any { return &f.Domain }},
	{"policy", func(f *Fields) any { return &f.Policy }},
	{"limits", func(f *Fields) any { return &f.Limits }},
	{"limit", func(f *Fields) any { return &f.Limit }},
	{"units", func(f *Fields) any { return &f.Units }},
	{"priority", func(f *Fields) any { return &f.Priority }},
	{"from", func(f *Fields) any { return &f.From }},
}

// names are the fields of each kind.
var names = map[records.Kind][]string{
	records.Subjects:  {"subject", "kind", "plan", "groups", "notes", "subscribed", "plan_until", "next_plan", "next_from"},
	records.Overrides: {"subject", "pattern", "rule", "requests", "per", "burst", "unlimited", "until", "why"},
	records.Bans:      {"subject", "address", "network", "until", "why"},
	records.APIKeys:   {"hash", "last", "subject", "replaces", "replaced_by", "until", "why"},
	records.Rules:     {"id", "uid", "url", "time", "requests", "algorithm", "burst", "domain", "policy"},
	records.Plans:     {"plan", "limits"},
	records.Grants:    {"subject", "id", "limit", "units", "priority", "from", "until", "why"},
}

// Kinds are all kinds, in the order of files.
var Kinds = []records.Kind{records.Subjects, records.Overrides, records.Bans, records.APIKeys, records.Rules, records.Plans, records.Grants}

// KindsOf returns the kinds that a file can have: rules only if they are among the records.
func KindsOf(f *records.File) []records.Kind {
	if f.HasRules() {
		return slices.Clone(Kinds)
	}
	return slices.DeleteFunc(slices.Clone(Kinds), func(k records.Kind) bool { return k == records.Rules })
}

// KindNames are the names of all kinds, for messages.
const KindNames = "subject, override, ban, key, rule, plan or grant"

// FieldNames returns the names of the fields of a kind.
func FieldNames(kind records.Kind) []string { return slices.Clone(names[kind]) }

// of returns a pointer to the field of that name; nil if there is none.
func (f *Fields) of(name string) any {
	for i := range columns {
		if columns[i].name == name {
			return columns[i].of(f)
		}
	}
	return nil
}

// ReadJSON reads the value of a field.
func (f *Fields) ReadJSON(s *jsonbody.Scanner, name string) *jsonbody.Fault {
	switch to := f.of(name).(type) {
	case *string:
		read, fault := s.Text()
		*to = strings.Clone(read) // s changes its bytes
		return fault
	case *uint32:
		read, fault := s.Whole("write a whole number")
		*to = read
		return fault
	case **uint32:
		read, fault := s.Whole("write a whole number")
		*to = &read
		return fault
	case *bool:
		read, fault := s.Truth()
		*to = read
		return fault
	case *[]string:
		_, fault := s.Array(func(i int) *jsonbody.Fault {
			if i == records.MaxGroups {
				return jsonbody.BadAt(s.Pos, fmt.Sprintf("more than %d elements", records.MaxGroups), "write fewer")
			}
			read, fault := s.Text()
			*to = append(*to, strings.Clone(read))
			return fault
		})
		return fault
	case *json.RawMessage:
		s.Space()
		d := json.NewDecoder(bytes.NewReader(s.Data[s.Pos:]))
		var read json.RawMessage
		if err := d.Decode(&read); err != nil || read[0] != '{' {
			return jsonbody.BadAt(s.Pos, "not an object of limits", `write limits by their names, such as {"api": {"requests": 100, "per": "1d"}}`)
		}
		s.Pos += int(d.InputOffset())
		*to = compact(read)
		return nil
	}
	return jsonbody.Bad("", "unknown field "+text.Quote(name), "leave it out")
}

// compact returns JSON without blanks between its parts.
func compact(text []byte) json.RawMessage {
	var b bytes.Buffer
	_ = json.Compact(&b, text) // it was decoded
	return b.Bytes()
}

// FieldsOf returns the fields of a record.
func FieldsOf(r records.Record) Fields {
	switch r := r.(type) {
	case records.Subject:
		return Fields{
			Subject: r.Name, Kind: string(r.Kind), Plan: r.Plan, Groups: r.Groups, Notes: r.Notes,
			Subscribed: writeTime(r.Subscribed), PlanUntil: writeTime(r.PlanUntil), NextPlan: r.Next.Plan, NextFrom: writeTime(r.Next.From),
		}
	case records.Override:
		f := Fields{Rule: r.Rule, Burst: r.Burst, Unlimited: r.Unlimited, Until: writeTime(r.Until), Why: r.Why}
		if r.Requests != 0 {
			f.Requests = &r.Requests
		}
		if r.Per != 0 {
			f.Per = text.FormatDuration(r.Per)
		}
		if r.IsPattern() {
			f.Pattern = r.Target
		} else {
			f.Subject = r.Target
		}
		return f
	case records.Ban:
		f := Fields{Subject: r.Subject, Until: writeTime(r.Until), Why: r.Why}
		switch n := r.Network; {
		case !n.IsValid():
		case n.IsSingleIP():
			f.Address = n.Addr().String()
		default:
			f.Network = n.String()
		}
		return f
	case records.APIKey:
		return Fields{
			Hash: r.Hash.String(), Last: r.Last, Subject: r.Subject, Replaces: writeHash(r.Replaces),
			ReplacedBy: writeHash(r.ReplacedBy), Until: writeTime(r.Until), Why: r.Why,
		}
	case records.Rule:
		var f Fields
		_ = json.Unmarshal(r.Text, &f) // it was checked, and its fields have the same names
		f.ID = r.Name
		return f
	case records.Plan:
		return Fields{Plan: r.Name, Limits: r.Limits}
	case records.Grant:
		priority := uint32(r.Priority)
		return Fields{
			Subject: r.Subject, ID: r.Name, Limit: r.Limit, Units: r.Units, Priority: &priority, From: writeTime(r.From), Until: writeTime(r.Until), Why: r.Why,
		}
	}
	return Fields{}
}

func writeTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func writeHash(h apikey.Hash) string {
	if h == (apikey.Hash{}) {
		return ""
	}
	return h.String()
}

// Read returns the record with these fields. Only what they cannot express is a fault here;
// [records.File] checks the rest. now is for ends such as 1h.
func (f *Fields) Read(kind records.Kind, now time.Time) (records.Record, *jsonbody.Fault) {
	until, fault := Until("until", f.Until, now)
	if fault != nil {
		return nil, fault
	}
	switch kind {
	case records.Subjects:
		return f.subject(now)
	case records.Overrides:
		return f.override(until)
	case records.Bans:
		return f.ban(until)
	case records.APIKeys:
		return f.key(until)
	case records.Rules:
		rule := Fields{ID: f.ID, UID: f.UID, URL: f.URL, Time: f.Time, Requests: f.Requests, Burst: f.Burst, Algorithm: f.Algorithm, Domain: f.Domain, Policy: f.Policy}
		return records.Rule{Name: f.ID, Text: rule.JSON()}, nil
	case records.Plans:
		return records.Plan{Name: f.Plan, Limits: f.Limits}, nil
	case records.Grants:
		return f.grant(until, now)
	}
	return nil, jsonbody.Bad("record", text.Quote(string(kind))+" is no kind of record", "write "+KindNames)
}

func (f *Fields) subject(now time.Time) (records.Record, *jsonbody.Fault) {
	s := records.Subject{Name: f.Subject, Kind: records.SubjectKind(f.Kind), Plan: f.Plan, Groups: f.Groups, Notes: f.Notes}
	var fault *jsonbody.Fault
	if s.PlanUntil, fault = Until("plan_until", f.PlanUntil, now); fault != nil {
		return nil, fault
	}
	s.Next.Plan = f.NextPlan
	if s.Next.From, fault = Until("next_from", f.NextFrom, now); fault != nil || f.Subscribed == "" {
		return s, fault
	}
	var err error
	if s.Subscribed, err = time.Parse(time.RFC3339, f.Subscribed); err != nil {
		return nil, jsonbody.Bad("subscribed", text.Quote(f.Subscribed)+" is not a time", "write it as in RFC 3339, such as 2026-01-31T00:00:00Z")
	}
	return s, nil
}

func (f *Fields) override(until time.Time) (records.Record, *jsonbody.Fault) {
	o := records.Override{
		Target: f.Subject, Rule: f.Rule, Burst: f.Burst, Unlimited: f.Unlimited, Until: until, Why: f.Why,
	}
	if f.Requests != nil {
		o.Requests = *f.Requests
	}
	switch {
	case f.Subject != "" && f.Pattern != "":
		return nil, jsonbody.Bad("pattern", "there is also a subject", "leave out one of them")
	case strings.Contains(f.Subject, "*"):
		return nil, jsonbody.Bad("subject", text.Quote(f.Subject)+" has a star", "name one subject, or write it as pattern")
	case f.Pattern != "" && !strings.Contains(f.Pattern, "*"):
		return nil, jsonbody.Bad("pattern", text.Quote(f.Pattern)+" has no star", "write it as subject, or add a star")
	case f.Pattern != "":
		o.Target = f.Pattern
	}
	if f.Per != "" {
		var err error
		if o.Per, err = text.ParseDuration(f.Per); err != nil {
			return nil, jsonbody.Bad("per", fmt.Sprintf("%s: %v", text.Quote(f.Per), err), "write a duration such as 1m or 1d")
		}
	}
	return o, nil
}

func (f *Fields) ban(until time.Time) (records.Record, *jsonbody.Fault) {
	b := records.Ban{Subject: f.Subject, Until: until, Why: f.Why}
	network, field := f.Network, "network"
	if f.Address != "" {
		if network != "" {
			return nil, jsonbody.Bad("network", "there is also an address", "make two bans")
		}
		network, field = f.Address, "address"
	}
	if network == "" {
		return b, nil
	}
	var err error
	if b.Network, err = records.ParseNetwork(network); err != nil {
		return nil, jsonbody.Bad(field, text.Quote(network)+" is neither a network nor an address", "write it such as 192.0.2.0/24, 2001:db8::/32 or 192.0.2.7")
	}
	if field == "address" && strings.Contains(network, "/") {
		return nil, jsonbody.Bad(field, text.Quote(network)+" is a network", "write it as network")
	}
	return b, nil
}

func (f *Fields) grant(until, now time.Time) (records.Record, *jsonbody.Fault) {
	g := records.Grant{Subject: f.Subject, Name: f.ID, Limit: f.Limit, Units: f.Units, Priority: records.GrantPriority, Until: until, Why: f.Why}
	if f.Priority != nil {
		if *f.Priority > math.MaxUint8 {
			return nil, jsonbody.Bad("priority", fmt.Sprintf("%d is above 255", *f.Priority), "write a number from 0 to 255; lower ones are used first")
		}
		g.Priority = uint8(*f.Priority)
	}
	var fault *jsonbody.Fault
	g.From, fault = Until("from", f.From, now)
	return g, fault
}

func (f *Fields) key(until time.Time) (records.Record, *jsonbody.Fault) {
	k := records.APIKey{Last: f.Last, Subject: f.Subject, Until: until, Why: f.Why}
	for _, h := range []struct {
		name, text string
		to         *apikey.Hash
	}{{"hash", f.Hash, &k.Hash}, {"replaces", f.Replaces, &k.Replaces}, {"replaced_by", f.ReplacedBy, &k.ReplacedBy}} {
		if h.text == "" {
			continue
		}
		if err := h.to.UnmarshalText([]byte(h.text)); err != nil {
			// The text may be a key: it is not shown.
			return nil, jsonbody.Bad(h.name, "not the hash of an API key", "write the 64 hexadecimal digits of its SHA-256")
		}
	}
	return k, nil
}

// Until returns the end of a record: a time as in RFC 3339, or the length of time from now until
// then, such as 1h, 7d or 2w. It is the zero time for "".
func Until(field, written string, now time.Time) (time.Time, *jsonbody.Fault) {
	if written == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, written); err == nil {
		return at, nil
	}
	d, err := text.ParseDuration(written)
	if err != nil {
		return time.Time{}, jsonbody.Bad(field, text.Quote(written)+" is neither a time nor a length of time", "write it such as 2030-01-31T12:00:00Z, 1h, 7d or 2w")
	}
	return now.Add(d), nil
}

// set reads a field from a cell of a table.
func (f *Fields) set(name, cell string) *jsonbody.Fault {
	if cell == "" {
		return nil
	}
	switch to := f.of(name).(type) {
	case *string:
		*to = cell
	case *json.RawMessage:
		if !json.Valid([]byte(cell)) {
			return jsonbody.Bad(name, "no JSON", `write an object such as {"api": {"requests": 100, "per": "1d"}}`)
		}
		*to = compact([]byte(cell))
	case *[]string:
		if strings.Count(cell, "\n") >= records.MaxGroups {
			return jsonbody.Bad(name, fmt.Sprintf("more than %d lines", records.MaxGroups), "write fewer")
		}
		*to = strings.Split(cell, "\n")
	case *uint32:
		n, fault := number(name, cell)
		*to = n
		return fault
	case **uint32:
		n, fault := number(name, cell)
		*to = &n
		return fault
	case *bool:
		on, err := strconv.ParseBool(cell)
		if err != nil {
			return jsonbody.Bad(name, text.Quote(cell)+" is neither true nor false", "correct it, or leave it empty")
		}
		*to = on
	}
	return nil
}

// number reads a number from a cell of a table.
func number(name, cell string) (uint32, *jsonbody.Fault) {
	n, err := strconv.ParseUint(cell, 10, 32)
	if err != nil {
		return 0, jsonbody.Bad(name, text.Quote(cell)+" is not a whole number from 0 to 4294967295", "correct it, or leave it empty")
	}
	return uint32(n), nil
}

// cell returns a field as a cell of a table.
func (f *Fields) cell(name string) string {
	switch from := f.of(name).(type) {
	case *string:
		return *from
	case *json.RawMessage:
		return string(*from)
	case *[]string:
		return strings.Join(*from, "\n")
	case *uint32:
		if *from != 0 {
			return strconv.FormatUint(uint64(*from), 10)
		}
	case **uint32:
		if *from != nil {
			return strconv.FormatUint(uint64(**from), 10)
		}
	case *bool:
		if *from {
			return "true"
		}
	}
	return ""
}

// JSON returns the fields as one line of JSON.
func (f *Fields) JSON() []byte {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(f) // cannot fail: only texts and numbers
	return []byte(out.String())
}

// SubjectPrefix returns what the names of all overrides, and of all grants, of a subject begin with.
func SubjectPrefix(subject string) string { return subject + "\n" }

// CutOverride returns the target and the rule of the name of an override, or the subject and the ID of that
// of a grant.
func CutOverride(name string) (target, rule string) {
	target, rule, _ = strings.Cut(name, "\n")
	return target, rule
}
