package denial

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"stint/internal/strictyaml"
)

// The limits of a denial in a rule file. mostBody is in bytes.
const (
	leastStatus = 400
	mostStatus  = 599
	mostBody    = 64 << 10
)

// Read compiles the word `denial` of a rule file and reports its faults. After a fault the result
// must not be used.
func Read(v strictyaml.Value) *Denial {
	d := &Denial{Status: http.StatusTooManyRequests}
	var bodies []strictyaml.Value
	body := func(contentType string, parse func(string) (executor, error)) func(strictyaml.Value) {
		return func(v strictyaml.Value) {
			bodies = append(bodies, v)
			d.ContentType = contentType
			d.readBody(v, parse)
		}
	}
	known := v.Object("denial", strictyaml.Words{
		"status":  d.readStatus,
		"headers": d.readHeaders,
		"json":    body(jsonType, newJSON),
		"html":    body(htmlType, newHTML),
	}, wordHint)
	switch {
	case len(bodies) > 1:
		bodies[1].Fail("json and html both set the body", "keep one of the two")
	case known && len(v.Fields()) == 0:
		v.Fail("denial is empty", "give it status, headers, json or html, or remove it")
	}
	return d
}

func wordHint(word string) string {
	switch word {
	case "body", "text", "content", "message", "template", "body_file":
		return "write json: or html: and the body, which may contain {{.RetryAfter}} and other numbers"
	case "code", "status_code", "http_status":
		return "write status:"
	case "header":
		return "write headers: {NAME: VALUE}"
	case "content_type":
		return "json: and html: set the content type"
	}
	return ""
}

func (d *Denial) readStatus(v strictyaml.Value) {
	status := v.Uint(mostStatus)
	if v.IsInt() && status > 0 && status < leastStatus || v.Text() == "0" {
		v.Fail(fmt.Sprintf("status: %s does not refuse a request", v.Text()), fmt.Sprintf("write %d to %d; the default is 429", leastStatus, mostStatus))
	}
	d.Status = int(status)
}

var (
	headerName  = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$")
	headerValue = regexp.MustCompile("^[\t -~]*$")
)

// taken are headers that somebody else sets, in lower case.
var taken = map[string]string{
	"content-type":      "json: and html: set the content type",
	"content-length":    "it follows from the body",
	"content-encoding":  "the body is sent unencoded",
	"transfer-encoding": "the server sets it",
	"connection":        "the server sets it",
	"keep-alive":        "the server sets it",
	"proxy-connection":  "the server sets it",
	"te":                "the server sets it",
	"trailer":           "the server sets it",
	"upgrade":           "the server sets it",
	"date":              "the server sets it",
	"host":              "it is a header of requests",
}

// numbers begin the names of the headers with numbers.
var numbers = []string{"retry-after", "ratelimit", "x-ratelimit"}

func (d *Denial) readHeaders(v strictyaml.Value) {
	if (v.IsObject() || v.IsNull()) && len(v.Fields()) == 0 {
		v.Fail("headers is empty", "write headers: {NAME: VALUE}, or remove it")
	}
	for _, f := range v.Fields() {
		name, value := strings.ToLower(f.Name), f.Value.Text()
		switch {
		case !headerName.MatchString(name):
			f.Value.Fail(fmt.Sprintf("headers: %q is not a valid header name", f.Name), "write letters, digits and dashes")
		case slices.ContainsFunc(numbers, func(n string) bool { return strings.HasPrefix(name, n) }):
			f.Value.Fail(fmt.Sprintf("headers: %s is one of the headers with numbers", f.Name), "remove it; `headers:` of the limit selects which are sent")
		case taken[name] != "":
			f.Value.Fail(fmt.Sprintf("headers: %s cannot be set here", f.Name), "remove it: "+taken[name])
		case !headerValue.MatchString(value):
			f.Value.Fail(fmt.Sprintf("headers: the value of %s has characters that are invalid in a header", f.Name), "write one line of ASCII; put other text into json: or html:")
		case slices.ContainsFunc(d.Headers, func(h Header) bool { return h.Name == name }):
			f.Value.Fail(fmt.Sprintf("headers: %s is set twice", f.Name), "keep one of the two; upper and lower case are the same")
		default:
			d.Headers = append(d.Headers, Header{name, strings.Trim(value, " \t")})
		}
	}
}

// templatePrefix is how the messages of both template packages begin.
var templatePrefix = regexp.MustCompile(`^(html/)?template: ?(json|html): ?`)

func (d *Denial) readBody(v strictyaml.Value, parse func(string) (executor, error)) {
	text := v.NonEmpty()
	if text == "" {
		return
	}
	if len(text) > mostBody {
		v.Fail(fmt.Sprintf("%s: %d bytes", v.Word(), len(text)), fmt.Sprintf("write at most %d; link to a page with more text", mostBody))
		return
	}
	body, err := parse(text)
	if err == nil {
		d.body, d.size = body, len(text)
		err = d.try()
	}
	if errors.Is(err, errNotJSON) {
		v.Fail(fmt.Sprintf("%s: %v", v.Word(), err), "write texts in quotes, such as \"{{.Rule}}\" and \"{{.Renewal}}\", and numbers without")
	} else if err != nil {
		v.Fail(fmt.Sprintf("%s: %s", v.Word(), templatePrefix.ReplaceAllString(err.Error(), "")),
			fmt.Sprintf("write text and {{.%s}}, and {{if}} with %s", strings.Join(known, "}}, {{."), strings.Join(functions, ", ")))
	}
}
