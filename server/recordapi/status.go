package recordapi

import (
	"net/http"
	"strings"
	"time"

	"stint/internal/jsonbody"
	"stint/records"
	"stint/records/trail"
	"stint/records/transfer"
)

// statusAnswer is the answer to GET /v1/records.
type statusAnswer struct {
	Revision uint64               `json:"revision"`
	AgeMS    int64                `json:"age_ms"` // how long ago this was certainly the last change
	Writable bool                 `json:"writable"`
	Error    string               `json:"error"` // why no change can be made now
	Kinds    map[records.Kind]int `json:"kinds"` // number of records
	Head     headAnswer           `json:"head"`  // of the audit trail
	Nodes    []nodeAnswer         `json:"nodes"`
}

// headAnswer is the last entry of the audit trail.
type headAnswer struct {
	Number uint64 `json:"number"`
	Hash   string `json:"hash"`
}

// nodeAnswer is a node that shares the records.
type nodeAnswer struct {
	Name     string    `json:"name"`
	Revision uint64    `json:"revision"`
	Seen     time.Time `json:"seen"`
}

func (a *api) status(w http.ResponseWriter, r *http.Request) {
	if _, f := jsonbody.Query(r, maxQuery); f != nil {
		f.Write(w)
		return
	}
	s := a.file.Status(time.Now())
	answer := statusAnswer{
		Revision: s.Revision, AgeMS: s.Age.Milliseconds(), Writable: s.Error == "", Error: s.Error,
		Kinds: map[records.Kind]int{}, Nodes: []nodeAnswer{},
	}
	for _, n := range s.Nodes {
		answer.Nodes = append(answer.Nodes, nodeAnswer(n))
	}
	for _, kind := range transfer.Kinds {
		n, err := a.file.Count(kind)
		if err != nil {
			a.failed(w, r, err, false)
			return
		}
		answer.Kinds[kind] = n
	}
	answer.Head.Number, answer.Head.Hash = a.file.Head()
	w.Header().Set("ETag", tag(s.Revision))
	jsonbody.WriteJSON(w, http.StatusOK, answer)
}

// verifyAnswer is the answer to GET /v1/audit/verify.
type verifyAnswer struct {
	Whole bool `json:"whole"` // no fault was found
	trail.Report
}

func (a *api) verify(w http.ResponseWriter, r *http.Request) {
	query, f := jsonbody.Query(r, maxQuery, "head")
	var known []trail.Head
	if f == nil && query.Has("head") {
		for written := range strings.SplitSeq(query.Get("head"), ",") {
			head, err := trail.ParseHead(written)
			if err != nil {
				f = jsonbody.Bad("head", "not a head of the audit trail", "write NUMBER:HASH, as GET /v1/records shows them, with commas between several")
				break
			}
			known = append(known, head)
		}
	}
	if f != nil {
		f.Write(w)
		return
	}
	jsonbody.ExtendDeadlines(w)
	report, err := a.file.Verify(r.Context(), known...)
	if err != nil {
		a.failed(w, r, err, false)
		return
	}
	jsonbody.WriteJSON(w, http.StatusOK, verifyAnswer{report.Break == nil, report})
}
