package accesslog

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonLine parses one line that is a JSON object. It parses from left to right and stores the known
// members, so a truncated object gives the members before the cut.
type jsonLine struct {
	parser  *Parser
	rest    []byte
	path    []byte // path of the current value, in lower case, joined by dots
	scratch []byte // buffer for unescaped strings
	found   [jsonFields]found

	cloudflare bool // the object has a member with Cloudflare's name of the method
}

// found is the best value of a field found so far.
type found struct {
	value []byte
	rank  uint8 // rank of its name; 0 for no value
}

// jsonField is a field of a record that a JSON member may contain.
type jsonField uint8

const (
	jsonAddress jsonField = iota
	jsonTime
	jsonMethod
	jsonTarget
	jsonRequest // a complete request line
	jsonStatus
	jsonUser
	jsonAgent
	jsonReferer
	jsonServer
	jsonFields
)

// jsonName is one name of a field. If an object has several names of the same field, the smallest
// rank is used.
type jsonName struct {
	field jsonField
	rank  uint8
}

// jsonNames are the names of known members: nginx's variables, the logs of Caddy (where "request"
// is an object) and Traefik, the Elastic Common Schema, Cloudflare's Logpush, the JSON of Envoy
// Gateway, and common English names.
var jsonNames = map[string]jsonName{
	"client_ip":                 {jsonAddress, 1},
	"request.client_ip":         {jsonAddress, 1}, // the client behind trusted proxies
	"clienthost":                {jsonAddress, 1},
	"remote_addr":               {jsonAddress, 2},
	"remote_ip":                 {jsonAddress, 2},
	"request.remote_ip":         {jsonAddress, 2},
	"clientaddr":                {jsonAddress, 3},
	"request.remote_addr":       {jsonAddress, 3},
	"downstream_remote_address": {jsonAddress, 3},
	"client.ip":                 {jsonAddress, 3},
	"client.address":            {jsonAddress, 4},
	"source.ip":                 {jsonAddress, 4},
	"source.address":            {jsonAddress, 5},
	"clientip":                  {jsonAddress, 5},
	"remote_host":               {jsonAddress, 6},
	"ip":                        {jsonAddress, 7},
	"remote_address":            {jsonAddress, 7},
	"remoteaddr":                {jsonAddress, 7},
	"addr":                      {jsonAddress, 8},
	"address":                   {jsonAddress, 8},
	"client":                    {jsonAddress, 9},
	"remote":                    {jsonAddress, 9},

	"startutc":           {jsonTime, 1},
	"edgestarttimestamp": {jsonTime, 1},
	"edgeendtimestamp":   {jsonTime, 3},
	"start_time":         {jsonTime, 1},
	"startlocal":         {jsonTime, 2},
	"msec":               {jsonTime, 2},
	"ts":                 {jsonTime, 2},
	"time_iso8601":       {jsonTime, 3},
	"time_local":         {jsonTime, 4},
	"time":               {jsonTime, 5},
	"@timestamp":         {jsonTime, 6},
	"timestamp":          {jsonTime, 7},
	"datetime":           {jsonTime, 8},
	"date":               {jsonTime, 9},

	"request_method":      {jsonMethod, 1},
	"request.method":      {jsonMethod, 1},
	"requestmethod":       {jsonMethod, 1},
	cloudflareMethod:      {jsonMethod, 1},
	"method":              {jsonMethod, 2},
	"http.request.method": {jsonMethod, 3},
	"verb":                {jsonMethod, 4},

	"request_uri":               {jsonTarget, 1},
	"request.uri":               {jsonTarget, 1},
	"clientrequesturi":          {jsonTarget, 1},
	"x-envoy-origin-path":       {jsonTarget, 2},
	"clientrequestpath":         {jsonTarget, 3},
	"requestpath":               {jsonTarget, 1},
	"uri":                       {jsonTarget, 2},
	"path":                      {jsonTarget, 3},
	"url":                       {jsonTarget, 4},
	"url.original":              {jsonTarget, 5},
	"url.path":                  {jsonTarget, 6},
	"request":                   {jsonRequest, 1}, // or only the target, if there is a method member
	"requestline":               {jsonRequest, 2},
	"request_line":              {jsonRequest, 2},
	"status":                    {jsonStatus, 1},
	"downstreamstatus":          {jsonStatus, 1},
	"edgeresponsestatus":        {jsonStatus, 1},
	"response_code":             {jsonStatus, 2},
	"status_code":               {jsonStatus, 2},
	"http.response.status_code": {jsonStatus, 3},

	"remote_user":    {jsonUser, 1},
	"user_id":        {jsonUser, 1},
	"clientusername": {jsonUser, 1},
	"user":           {jsonUser, 2},
	"user.name":      {jsonUser, 3},

	"http_user_agent":            {jsonAgent, 1},
	"request.headers.user-agent": {jsonAgent, 1},
	"request_user-agent":         {jsonAgent, 1},
	"clientrequestuseragent":     {jsonAgent, 1},
	"user-agent":                 {jsonAgent, 2},
	"user_agent":                 {jsonAgent, 2},
	"useragent":                  {jsonAgent, 3},
	"agent":                      {jsonAgent, 4},
	"user_agent.original":        {jsonAgent, 5},

	"http_referer":            {jsonReferer, 1},
	"request.headers.referer": {jsonReferer, 1},
	"request_referer":         {jsonReferer, 1},
	"clientrequestreferer":    {jsonReferer, 1},
	"referer":                 {jsonReferer, 2},
	"referrer":                {jsonReferer, 3},

	"http_host":         {jsonServer, 1},
	"request.host":      {jsonServer, 1},
	"requesthost":       {jsonServer, 1},
	"clientrequesthost": {jsonServer, 1},
	":authority":        {jsonServer, 2},
	"authority":         {jsonServer, 2},
	"host":              {jsonServer, 2},
}

// cloudflareMethod is the name of the method that only Cloudflare uses.
const cloudflareMethod = "clientrequestmethod"

const (
	maxJSONPath  = 128
	maxJSONDepth = 32
)

// parse parses a line into the record of p.
func (j *jsonLine) parse(line []byte, p *Parser) bool {
	j.parser, j.rest = p, line
	j.path, j.scratch = j.path[:0], j.scratch[:0]
	j.found = [jsonFields]found{}
	p.rec = Record{}
	j.cloudflare = false
	j.value(0)

	r := &p.rec
	if r.At == 0 || r.host == nil {
		return false
	}
	method, target := j.found[jsonMethod], j.found[jsonTarget]
	if line := j.found[jsonRequest]; line.rank > 0 && (method.rank == 0 || target.rank != 1) && r.setRequestLine(line.value) {
		if method.rank > 0 {
			r.Method = method.value
		}
	} else {
		if target.rank == 0 {
			target = line
		}
		if r.Method = method.value; !isMethod(r.Method) || !r.setTarget(target.value) {
			return false
		}
	}
	if s := j.found[jsonStatus].value; len(s) == 3 {
		r.Status, _ = number(s, 999)
	}
	r.User, r.Agent = j.found[jsonUser].value, j.found[jsonAgent].value
	r.Referer, r.Server = j.found[jsonReferer].value, j.found[jsonServer].value
	return isMethod(r.Method)
}

// setRequestLine parses a request line that is a value of its own.
func (r *Record) setRequestLine(s []byte) bool {
	_, ok := r.setRequest(s, false)
	return ok
}

func isMethod(s []byte) bool {
	for _, c := range s {
		if !isToken(c) {
			return false
		}
	}
	return len(s) > 0 && isLetter(s[0])
}

// value parses the value at the beginning of rest. It reports whether parsing can continue after
// it.
func (j *jsonLine) value(depth int) bool {
	j.space()
	if len(j.rest) == 0 || depth > maxJSONDepth {
		return false
	}
	switch j.rest[0] {
	case '{':
		return j.members(depth)
	case '[':
		return j.elements(depth)
	case '"':
		s, whole := j.text()
		j.take(s)
		return whole
	}
	n := 0
	for n < len(j.rest) && bytes.IndexByte([]byte(",]} \t"), j.rest[n]) < 0 {
		n++
	}
	if s := j.rest[:n]; string(s) != "null" {
		j.take(s)
	}
	j.rest = j.rest[n:]
	return n > 0
}

// members parses an object.
func (j *jsonLine) members(depth int) bool {
	j.rest = j.rest[1:]
	parent := len(j.path)
	for {
		if j.space(); j.is('}') {
			return true
		}
		if len(j.rest) == 0 || j.rest[0] != '"' {
			return false
		}
		key, whole := j.text()
		if !whole {
			return false
		}
		j.enter(key)
		if j.space(); !j.is(':') || !j.value(depth+1) {
			return false
		}
		j.path = j.path[:parent]
		if j.space(); !j.is(',') {
			return j.is('}')
		}
	}
}

// elements parses an array. It uses the first usable element, because a header may have several
// values.
func (j *jsonLine) elements(depth int) bool {
	j.rest = j.rest[1:]
	for {
		if j.space(); j.is(']') {
			return true
		}
		if !j.value(depth + 1) {
			return false
		}
		if j.space(); !j.is(',') {
			return j.is(']')
		}
	}
}

func (j *jsonLine) space() {
	for len(j.rest) > 0 && (j.rest[0] == ' ' || j.rest[0] == '\t') {
		j.rest = j.rest[1:]
	}
}

// is skips c if rest begins with it, and reports whether it did.
func (j *jsonLine) is(c byte) bool {
	if len(j.rest) == 0 || j.rest[0] != c {
		return false
	}
	j.rest = j.rest[1:]
	return true
}

// enter appends a key to the path. It cuts a key that is longer than any known name.
func (j *jsonLine) enter(key []byte) {
	if len(j.path) > 0 {
		j.path = append(j.path, '.')
	}
	for _, c := range key[:min(len(key), maxJSONPath)] {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		j.path = append(j.path, c)
	}
}

// take stores the current value if its path is known, no value with a better rank was found, and
// the value is valid for the field.
func (j *jsonLine) take(value []byte) {
	name, ok := jsonNames[string(j.path)]
	if value = present(value); !ok || len(value) == 0 {
		return
	}
	f := &j.found[name.field]
	if f.rank > 0 && f.rank <= name.rank {
		return
	}
	switch name.field {
	case jsonAddress:
		if !j.parser.rec.setHost(value) {
			return
		}
	case jsonTime:
		at, ok := j.parser.stamp.anyTime(value)
		if !ok {
			return
		}
		j.parser.rec.At = at
	case jsonMethod:
		j.cloudflare = string(j.path) == cloudflareMethod
	}
	*f = found{value, name.rank}
}

// text parses the string at the beginning of rest. whole is false if the line ends inside the
// string.
func (j *jsonLine) text() (s []byte, whole bool) {
	b := j.rest[1:]
	end := closingQuote(b)
	if whole = end >= 0; whole {
		s, j.rest = b[:end], b[end+1:]
	} else {
		s, j.rest = b, nil
	}
	if bytes.IndexByte(s, '\\') >= 0 {
		s = j.unescape(s)
	}
	return s, whole
}

// unescape decodes the escapes of JSON. It keeps others unchanged, such as \x1f, which nginx writes
// without escape=json.
func (j *jsonLine) unescape(s []byte) []byte {
	from := len(j.scratch)
	for len(s) > 0 {
		i := bytes.IndexByte(s, '\\')
		if i < 0 || i+1 == len(s) {
			break
		}
		j.scratch = append(j.scratch, s[:i]...)
		s = s[i:]
		if r, n := escapedRune(s); n > 0 {
			j.scratch = utf8.AppendRune(j.scratch, r)
			s = s[n:]
			continue
		}
		j.scratch = append(j.scratch, s[:2]...)
		s = s[2:]
	}
	j.scratch = append(j.scratch, s...)
	return j.scratch[from:]
}

// escapedRune decodes the escape at the beginning of s; n is 0 if it is invalid.
func escapedRune(s []byte) (r rune, n int) {
	if s[1] != 'u' {
		i := bytes.IndexByte([]byte(`"\/bfnrt`), s[1])
		if i < 0 {
			return 0, 0
		}
		return rune("\"\\/\b\f\n\r\t"[i]), 2
	}
	r, ok := hex4(s[2:])
	if !ok {
		return 0, 0
	}
	if utf16.IsSurrogate(r) && len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
		if low, ok := hex4(s[8:]); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, 12
			}
		}
	}
	return r, 6 // an unpaired surrogate becomes the replacement character
}

func hex4(s []byte) (r rune, ok bool) {
	if len(s) < 4 {
		return 0, false
	}
	for _, c := range s[:4] {
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
