package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"stint"
	"stint/internal/jsonbody"
	"stint/limiter"
	"stint/limiter/reservation"
	"stint/rule"
)

// SettlePath is the path where callers say how a request was answered whose check had reserve.
const SettlePath = "/v1/settle"

// appendReservation adds the member reservation to the answer of a check, null if the request is denied.
func (t *Traffic) appendReservation(answer []byte, v *limiter.Verdict) []byte {
	answer = append(answer[:len(answer)-len("}\n")], `,"reservation":`...)
	if text := t.reserved.Issue(v); text != "" {
		answer = jsonbody.AppendString(answer, text)
	} else {
		answer = append(answer, "null"...)
	}
	return append(answer, "}\n"...)
}

// The members of the body of SettlePath.
var settleFields = []string{"reservation", "status"}

const (
	hasReservation = 1 << iota
	hasStatus
)

var (
	statusHint      = fmt.Sprintf("give the status of the response, from %d to %d, such as 401", rule.LeastStatus, rule.MostStatus)
	reservationHint = "give the reservation as the answer to the check has it"
)

// settle handles SettlePath.
func (t *Traffic) settle(ctx context.Context, req *Request, resp *Response) *jsonbody.Fault {
	text, status, f := readSettle(req.Body)
	if f != nil {
		return f
	}
	outcome, err := t.reserved.Settle(ctx, text, int(status))
	switch {
	case errors.Is(err, reservation.ErrStatus):
		return jsonbody.Bad("status", err.Error(), statusHint)
	case errors.Is(err, reservation.ErrForged):
		return &jsonbody.Fault{
			Status: http.StatusNotFound, Code: jsonbody.NotFound, Field: "reservation", Problem: err.Error(),
			Hint: reservationHint + "; nodes that settle for each other need the same --namespace-secret-file",
		}
	case errors.Is(err, reservation.ErrLate):
		return &jsonbody.Fault{
			Status: http.StatusGone, Code: jsonbody.Expired, Field: "reservation", Problem: err.Error(),
			Hint: fmt.Sprintf("settle within %v of the check", stint.MaxReservation),
		}
	case err != nil:
		f := noDecision(err)
		f.Hint = "send the same again: it is settled once"
		return f
	}
	resp.Status = http.StatusOK
	resp.set("Content-Type", "application/json")
	resp.Body, err = json.Marshal(outcome)
	if err != nil {
		return noDecision(err)
	}
	resp.Body = append(resp.Body, '\n')
	return nil
}

// readSettle decodes the body of SettlePath.
func readSettle(body []byte) (text string, status uint32, f *jsonbody.Fault) {
	s := jsonbody.Scanner{Data: body}
	seen, f := s.Object(settleFields, func(field int) (f *jsonbody.Fault) {
		switch 1 << field {
		case hasReservation:
			text, f = s.Text()
		case hasStatus:
			status, f = s.Whole(statusHint)
		}
		return f
	})
	if f == nil {
		f = s.End()
	}
	switch {
	case f != nil:
		return "", 0, f
	case seen&hasReservation == 0:
		return "", 0, jsonbody.Bad("reservation", "missing", reservationHint)
	case seen&hasStatus == 0:
		return "", 0, jsonbody.Bad("status", "missing", statusHint)
	}
	return text, status, nil
}
